// Draws the figures in the page's own width and colours, again when either changes, and marks in
// the contents where the reader is. Without this script the page shows still pictures.
(() => {
  "use strict";
  const { themes, charts } = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const NARROW = 560;
  const ERRORS_ONLY = 1; // Vega also warns of layouts that come out as they are meant to

  // The same replacement as weft.theme.paint: "$ink" becomes the theme's colour of that role.
  const paint = (value, colours) => {
    if (Array.isArray(value)) return value.map((item) => paint(item, colours));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, paint(v, colours)]));
    }
    return typeof value === "string" && value[0] === "$" ? colours[value.slice(1)] ?? value : value;
  };

  // The encoding of a drawing with named rows that names them.
  const named = (chart) => {
    const layers = chart.layer ?? [chart];
    return layers.map((layer) => layer.encoding.y).find((y) => y?.scale?.domain || y?.sort);
  };

  const namesOf = (y) => y.scale?.domain ?? y.sort;

  // An expression that sets a name out on the lines that are given for it.
  const inLines = (lines, name) => `${JSON.stringify(lines)}[${name}]`;

  const rowsOf = (chart) => namesOf(named(chart)).length;

  // What stands left of a drawing, and so of its title, in pixels.
  const beside = (chart) => {
    if (!chart.height?.step) return 70;
    const y = named(chart);
    const letters = Math.max(...namesOf(y).flatMap((name) => name.split("\n")).map((line) => line.length));
    return 30 + Math.min(y.axis?.labelLimit ?? Infinity, 6.5 * letters);
  };

  // A legend, an axis label and a title take their room from the figure, which must not be wider
  // than the text around it.
  const fit = (chart, width) => {
    const narrow = width < NARROW;
    const fitted = { ...chart };
    if (chart.facet) {
      const columns = narrow ? 1 : Math.min(chart.columns, 2);
      fitted.columns = columns;
      fitted.spec = { ...chart.spec, width: Math.floor((width - 90) / columns) - 16 };
    } else {
      // A height by steps makes Vega complain that it cannot fit it, which nobody asked for.
      if (chart.height?.step) fitted.height = chart.height.step * rowsOf(chart);
      fitted.width = "container";
      fitted.autosize = { type: "fit-x", contains: "padding" };
    }
    return fitted;
  };

  // A symbol and its distances take some 34 pixels, a letter some 7.
  const columns = (chart, config, room) => {
    const name = Math.min(7 * longest(chart), config.legend.labelLimit);
    return Math.max(1, Math.floor(room / (34 + name)));
  };

  // A legend that is wider than its drawing breaks into rows.
  const withLegend = (config, chart, room, more) => ({
    ...config,
    legend: { ...config.legend, columns: columns(chart, config, room), labelLimit: 0, ...more },
  });

  const narrowConfig = (config, chart, room, width) => ({
    ...withLegend(config, chart, room, { rowPadding: 3, layout: { direction: "vertical" } }),
    axis: { ...config.axis, labelFontSize: 10, titleFontSize: 11 },
    title: { ...config.title, fontSize: 14, subtitleFontSize: 11, frame: "bounds" },
  });

  // The longest name in a chart's legends.
  const longest = (value) => {
    if (!value || typeof value !== "object") return 0;
    const names = value.legend !== null && value.scale?.domain ? value.scale.domain : [];
    const own = names.filter((name) => typeof name === "string").map((name) => name.length);
    return Math.max(0, ...own, ...Object.values(value).map(longest));
  };

  // Settings of single axes and legends that were chosen for the wide drawing.
  const slim = (value, most) => {
    if (Array.isArray(value)) return value.map((item) => slim(item, most));
    if (!value || typeof value !== "object") return value;
    const out = Object.fromEntries(Object.entries(value).map(([k, v]) => [k, slim(v, most)]));
    if (out.axis && typeof out.title === "string") out.title = wrap(out.title, most);
    if (out.tickCount) out.tickCount = Math.min(out.tickCount, 5);
    return out;
  };

  // No legend of a drawing has more columns than there is room for.
  const within = (value, most) => {
    if (Array.isArray(value)) return value.map((item) => within(item, most));
    if (!value || typeof value !== "object") return value;
    const out = Object.fromEntries(Object.entries(value).map(([k, v]) => [k, within(v, most)]));
    const wished = out.legend?.columns;
    if (wished) out.legend = { ...out.legend, columns: Math.min(wished, most) };
    return out;
  };

  // A name in a legend that is longer than a line has several.
  const legendInLines = (value, most) => {
    if (Array.isArray(value)) return value.map((item) => legendInLines(item, most));
    if (!value || typeof value !== "object") return value;
    const out = Object.fromEntries(
      Object.entries(value).map(([k, v]) => [k, legendInLines(v, most)]),
    );
    const names = out.legend !== null && out.scale?.domain;
    if (Array.isArray(names) && names.some((name) => name.length > most)) {
      const lines = Object.fromEntries(names.map((name) => [name, wrap(name, most)]));
      out.legend = { ...out.legend, labelExpr: inLines(lines, "datum.label") };
    }
    return out;
  };

  // Names along a narrow drawing that do not fit beside each other stand upright.
  const upright = (value, width) => {
    if (Array.isArray(value)) return value.map((item) => upright(item, width));
    if (!value || typeof value !== "object") return value;
    const out = Object.fromEntries(Object.entries(value).map(([k, v]) => [k, upright(v, width)]));
    const names = out.x?.type === "nominal" || out.x?.type === "ordinal" ? namesOf(out.x) : null;
    if (Array.isArray(names) && 7 * Math.max(...names.map((name) => `${name}`.length)) > width / names.length) {
      out.x = { ...out.x, axis: { ...out.x.axis, labelAngle: -90, labelLimit: 0 } };
    }
    return out;
  };

  // Names of rows take half of a narrow drawing; there they stand above their row instead.
  const namesAbove = (chart, width, number) => {
    if (!charts[number].height?.step) return chart;
    const layers = chart.layer ?? [{ mark: chart.mark, encoding: chart.encoding }];
    const y = layers.map((layer) => layer.encoding.y).find(Boolean);
    const most = (width - 60) / 6.4;
    const lines = Object.fromEntries(
      namesOf(y).map((name) => [name, wrap(name.replaceAll("\n", " "), most)]),
    );
    // The marks stand in the middle of a row, so that the names have half of it.
    const step = 22 + 26 * Math.max(...Object.values(lines).map((one) => one.length));
    const above = {
      transform: [
        { aggregate: [{ op: "count", as: "n" }], groupby: [y.field] },
        { calculate: inLines(lines, `datum["${y.field}"]`), as: "lines" },
      ],
      mark: {
        type: "text", align: "left", baseline: "top", dy: 3 - step / 2, fontSize: 11,
        lineHeight: 13, x: 0,
        // What is cut off at the edge takes no room from the drawing.
        clip: true,
      },
      encoding: { y, text: { field: "lines" } },
    };
    const bare = { ...y, axis: { ...y.axis, labels: false } };
    const nameless = (layer) =>
      layer.encoding.y ? { ...layer, encoding: { ...layer.encoding, y: bare } } : layer;
    const { mark, encoding, ...rest } = chart;
    return { ...rest, height: step * rowsOf(chart), layer: [...layers, above].map(nameless) };
  };

  // A line of text in a drawing does not wrap by itself.
  const wrap = (text, most) => {
    const lines = [""];
    for (const word of text.split(" ")) {
      const line = lines[lines.length - 1];
      if (line && line.length + 1 + word.length > most) lines.push(word);
      else lines[lines.length - 1] = line ? `${line} ${word}` : word;
    }
    return lines;
  };

  const drawn = new Map();
  const draw = async (number) => {
    const place = document.getElementById(`chart-${number}`);
    const width = place.clientWidth;
    const theme = dark.matches ? themes.dark : themes.light;
    const narrow = width < NARROW;
    let chart = paint(fit(charts[number], width), theme.colours);
    // A title begins at the page's edge in a narrow drawing, and is smaller there.
    const [left, letter, small] = narrow ? [0, 8.8, 6.6] : [beside(charts[number]), 9, 6.8];
    if (narrow) chart = upright(namesAbove(slim(chart, width / 9.5), width, number), width - 80);
    const room = width - (narrow ? 60 : left);
    chart = legendInLines(chart, Math.min(theme.config.legend.labelLimit, room - 40) / 7);
    chart = within(chart, columns(chart, theme.config, room));
    const config = narrow
      ? narrowConfig(theme.config, chart, room, width)
      : withLegend(theme.config, chart, room);
    const below = chart.title.subtitle;
    chart.title = {
      ...chart.title,
      // The menu of the drawing stands on its right.
      text: wrap(chart.title.text, (width - left - 40) / letter),
      ...(below && { subtitle: wrap(below, (width - left) / small) }),
    };
    drawn.get(number)?.view?.finalize();
    drawn.set(number, { width });
    const actions = { export: true, source: false, compiled: false, editor: false };
    const result = await window.vegaEmbed(place, chart, {
      mode: "vega-lite", renderer: "svg", logLevel: ERRORS_ONLY, config, actions,
    });
    drawn.set(number, { width, view: result.view });
  };

  const drawAll = async () => {
    for (const number of charts.keys()) await draw(number);
  };
  drawAll();

  dark.addEventListener("change", drawAll);
  let pending;
  window.addEventListener("resize", () => {
    clearTimeout(pending);
    pending = setTimeout(() => {
      for (const [number, { width }] of drawn) {
        if (document.getElementById(`chart-${number}`).clientWidth !== width) draw(number);
      }
    }, 150);
  });

  const links = new Map(
    [...document.querySelectorAll("nav li a")].map((link) => [link.hash.slice(1), link]),
  );
  const here = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      links.get(entry.target.id)?.classList.toggle("here", entry.isIntersecting);
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  document.querySelectorAll("main > section").forEach((section) => here.observe(section));
})();
