// Measures where each text of a page stands, and returns in words what collides with another text,
// what is cut, and whether the page must be scrolled sideways. Every fold is opened for it.
(() => {
  const SLACK = 1.5; // a glyph may lean out of its box
  document.querySelectorAll("details:not(.vega-embed *)").forEach((fold) => (fold.open = true));
  const root = document.documentElement;

  const holds = (element) => getComputedStyle(element).overflowX !== "visible";
  const isHeld = (element) => {
    for (let at = element; at && at !== document.body; at = at.parentElement) {
      if (!(at instanceof SVGElement) && holds(at)) return true;
    }
    return false;
  };
  const isShown = (element) =>
    element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) &&
    !element.closest("script, style, .vega-embed > details");

  // One entry a line of text. A text of a drawing has as many lines as it has spans on their own.
  const texts = [];
  const add = (words, rect, owner) => {
    if (rect.width > 0.5 && rect.height > 0.5) texts.push({ words, rect, owner });
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const owner = node.parentElement;
    const words = node.textContent.trim();
    if (!words || !isShown(owner) || owner.closest("svg title, svg style")) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    if (owner.closest("svg")) add(words, range.getBoundingClientRect(), owner);
    else for (const rect of range.getClientRects()) add(words, rect, owner);
  }

  const named = ({ words, owner }) => {
    const place = owner.closest("[id]")?.id ?? "";
    return `“${words.replaceAll(/\s+/g, " ").slice(0, 60)}” in ${place}`;
  };
  const faults = [];

  // What a text may not leave: its drawing, its cell, and sideways the page.
  for (const text of texts) {
    const { rect, owner, words } = text;
    const drawing = owner.closest("svg")?.getBoundingClientRect();
    const cell = owner.closest("td, th, dt, dd")?.getBoundingClientRect();
    const leaves = (box) => rect.left < box.left - SLACK || rect.right > box.right + SLACK;
    const climbs = (box) => rect.top < box.top - SLACK || rect.bottom > box.bottom + SLACK;
    const page = { left: 0, right: root.clientWidth };
    if (drawing && (leaves(drawing) || climbs(drawing))) faults.push(`leaves its drawing: ${named(text)}`);
    if (cell && leaves(cell)) faults.push(`leaves its cell: ${named(text)}`);
    if (leaves(page) && !isHeld(owner)) faults.push(`leaves the page: ${named(text)}`);
    if (drawing && words.length > 1 && words.endsWith("…")) faults.push(`cut short: ${named(text)}`);
  }

  // What holds more than it shows. The strip of contents is meant to be pushed along.
  for (const box of document.querySelectorAll("body *:not(nav, nav *, svg *, .vega-embed *)")) {
    const { overflowY } = getComputedStyle(box);
    const isCut = holds(box) && box.scrollWidth > box.clientWidth + 1;
    const isShort = ["hidden", "clip"].includes(overflowY) && box.scrollHeight > box.clientHeight + 1;
    if (isShown(box) && (isCut || isShort)) {
      faults.push(`holds more than it shows: ${named({ words: box.textContent.trim(), owner: box })}`);
    }
  }
  if (root.scrollWidth > root.clientWidth) faults.push(`the page is ${root.scrollWidth} wide`);

  // The boxes of two lines may touch; texts collide where they share a third of their height.
  texts.sort((one, other) => one.rect.top - other.rect.top);
  texts.forEach((one, place) => {
    for (let next = place + 1; next < texts.length; next += 1) {
      const other = texts[next];
      if (other.rect.top >= one.rect.bottom) break;
      const across = Math.min(one.rect.right, other.rect.right) - Math.max(one.rect.left, other.rect.left);
      const down = Math.min(one.rect.bottom, other.rect.bottom) - other.rect.top;
      if (across > SLACK && down > Math.min(one.rect.height, other.rect.height) / 3) {
        faults.push(`collide: ${named(one)} and ${named(other)}`);
      }
    }
  });
  return { texts: texts.length, faults };
})()
