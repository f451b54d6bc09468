// Searches the manual without a network, and from a file, where a page may fetch nothing: the index
// is a script beside this one that sets window.manualIndex to rows of address, page, heading, text.
(() => {
  "use strict";
  const own = document.currentScript.src;
  const index = window.manualIndex.map(([address, page, heading, text]) => ({
    address, page, heading, text,
    title: `${page} ${heading}`.toLowerCase(),
    body: text.toLowerCase(),
  }));
  const MOST = 12;
  const AROUND = 70; // letters shown on each side of what was found

  const words = (query) => query.toLowerCase().split(/\s+/).filter(Boolean);

  // Every word must be there; in a heading it counts for more, and at the start of a word for more.
  const score = (row, wanted) => {
    let sum = 0;
    for (const word of wanted) {
      const [title, body] = [row.title.indexOf(word), row.body.indexOf(word)];
      if (title < 0 && body < 0) return 0;
      const starts = (text, at) => at >= 0 && (at === 0 || !/[a-z0-9]/.test(text[at - 1]));
      if (title >= 0) sum += starts(row.title, title) ? 12 : 5;
      if (row.heading.toLowerCase() === word) sum += 12;
      if (body >= 0) sum += Math.min(row.body.split(word).length - 1, 4);
      if (starts(row.body, body)) sum += 1;
    }
    // Words that stand beside each other as they were asked for are more than words anywhere.
    const phrase = wanted.join(" ");
    if (wanted.length > 1 && row.body.includes(phrase)) sum += 8;
    if (wanted.length > 1 && row.title.includes(phrase)) sum += 16;
    return sum;
  };

  const find = (query) => {
    const wanted = words(query);
    if (!wanted.length) return [];
    return index
      .map((row) => [score(row, wanted), row])
      .filter(([sum]) => sum > 0)
      .sort((a, b) => b[0] - a[0])
      .slice(0, MOST)
      .map(([, row]) => row);
  };

  const element = (name, className, text) => {
    const made = document.createElement(name);
    made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  };

  // The place of the first word that was found, with what stands around it.
  const excerpt = (row, wanted) => {
    const phrase = row.body.indexOf(wanted.join(" "));
    const places = wanted.map((word) => row.body.indexOf(word)).filter((at) => at >= 0);
    const found = phrase >= 0 ? phrase : places.length ? Math.min(...places) : 0;
    // From the beginning of a word on.
    const from = found > AROUND ? row.body.indexOf(" ", found - AROUND) + 1 : 0;
    const line = element("span", "manual-search__text");
    let rest = (from ? "… " : "") + row.text.slice(from, from + 3 * AROUND);
    while (rest) {
      const at = wanted
        .map((word) => [rest.toLowerCase().indexOf(word), word.length])
        .filter(([place]) => place >= 0)
        .sort((a, b) => a[0] - b[0])[0];
      if (!at) break;
      line.append(rest.slice(0, at[0]), element("mark", "", rest.slice(at[0], at[0] + at[1])));
      rest = rest.slice(at[0] + at[1]);
    }
    line.append(rest);
    return line;
  };

  const box = element("div", "manual-search");
  const input = Object.assign(element("input", "manual-search__input"), {
    type: "search", placeholder: "Search", autocomplete: "off", spellcheck: false,
  });
  input.setAttribute("aria-label", "Search the manual");
  const list = element("ul", "manual-search__results");
  list.hidden = true;
  box.append(input, list);
  const header = document.querySelector(".md-header__inner") ?? document.body;
  header.append(box);

  const show = () => {
    const wanted = words(input.value);
    const found = find(input.value);
    list.replaceChildren(
      ...found.map((row) => {
        const link = element("a", "");
        link.href = new URL(`../${row.address}`, own).href;
        const name = row.heading && row.heading !== row.page ? `${row.page} · ${row.heading}` : row.page;
        link.append(element("strong", "", name), excerpt(row, wanted));
        const entry = element("li", "");
        entry.append(link);
        return entry;
      }),
    );
    if (wanted.length && !found.length) {
      list.append(element("li", "manual-search__none", "Nothing of that is in the manual."));
    }
    list.hidden = !wanted.length;
  };
  const close = () => { list.hidden = true; };

  input.addEventListener("input", show);
  input.addEventListener("focus", show);
  document.addEventListener("click", (event) => { if (!box.contains(event.target)) close(); });
  document.addEventListener("keydown", (event) => {
    const typing = /^(input|textarea|select)$/i.test(event.target.tagName);
    if (event.key === "/" && !typing) {
      event.preventDefault();
      input.focus();
    } else if (event.key === "Escape" && box.contains(event.target)) {
      close();
      input.blur();
    } else if (box.contains(event.target)) {
      move(event);
    }
  });

  const move = (event) => {
    const links = [...list.querySelectorAll("a")];
    const here = links.indexOf(document.activeElement);
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) {
      event.preventDefault();
      (links[here + steps[event.key]] ?? input).focus();
    } else if (event.key === "Enter" && event.target === input && links.length) {
      links[0].click();
    }
  };
})();
