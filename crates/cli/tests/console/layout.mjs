// What of a page's text does not fit: looked for inside of the page, by the rectangles of its text. Nothing here knows a page of the
// console. What may be moved within its own frame is marked there as `data-scrolls` (a graph, a heat map); `pre` and JSON are by nature.

/** Widths of a small telephone, of a usual one, and of a usual desktop. */
export const WIDTHS = [360, 390, 1440];

/** Runs in the page, by its source: it uses nothing from outside. Answers what offends: where, which text, which rectangles. */
export function misfits() {
  // Pixels that are allowed: the edge of a letter, and a letter that is taller than its line.
  const [ACROSS, DOWN] = [1.5, 5];
  const MOVED = "[data-scrolls], pre, .json, textarea";
  const SOLID = "button, .button, input:not([type=hidden]), select, textarea, svg.meter, summary";
  // Charts place themselves; what is only spoken has no place.
  const SKIPPED = ".hidden, .skip, .uplot, #said, [aria-hidden=true], option, title, script, style";
  // A word of so many letters, without a hyphen, is in one piece everywhere.
  const WHOLE = /(?<!\S)[\p{L}\p{N}]{2,10}(?!\S)/gu;
  const LONGEST_TIME = "9\u202f999 d 23 h ago";

  const found = [];
  const shown = rect => [rect.left, rect.top, rect.right, rect.bottom].map(Math.round).join(" ");
  const short = text => text.trim().slice(0, 60);
  const ancestors = element => { const all = []; for (let at = element; at; at = at.parentElement) all.push(at); return all; };
  const label = element => `${element.localName}${element.id ? `#${element.id}` : ""}${[...element.classList].map(name => `.${name}`).join("")}`;
  const selector = element => ancestors(element).filter(at => at !== document.body && at !== document.documentElement).slice(0, 4).map(label).reverse().join(" > ");
  const offends = (what, text, element, rect, more) => found.push({ what, text: short(text), at: selector(element), rect: shown(rect), ...more });

  const styles = new Map();
  const style = element => { if (!styles.has(element)) styles.set(element, getComputedStyle(element)); return styles.get(element); };
  const clips = element => ["hidden", "clip"].includes(style(element).overflowX) || ["hidden", "clip"].includes(style(element).overflowY);
  const scrolls = element => ["auto", "scroll"].includes(style(element).overflowX);
  /** Made a point for those who see the page, as the head of a table of cards is. */
  const isSpokenOnly = element => ancestors(element).some(at => style(at).clipPath !== "none");
  const isFolded = element => !!element.closest("details:not([open])") && !element.closest("summary");
  const isVisible = element => element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !element.closest(SKIPPED) && !isFolded(element) && !isSpokenOnly(element);
  /** The nearest box: a text has to fit into that. */
  const boxOf = element => element instanceof SVGElement ? element.closest("svg") : ancestors(element).find(at => !["inline", "contents"].includes(style(at).display)) ?? element;
  const within = (inner, outer) => ({ left: Math.max(inner.left, outer.left), top: Math.max(inner.top, outer.top), right: Math.min(inner.right, outer.right), bottom: Math.min(inner.bottom, outer.bottom) });
  const fits = (rect, room) => rect.left >= room.left - ACROSS && rect.right <= room.right + ACROSS && rect.top >= room.top - DOWN && rect.bottom <= room.bottom + DOWN;

  // A page that is left open for years has such times.
  for (const time of document.querySelectorAll("[data-rel]")) time.textContent = LONGEST_TIME;
  const root = document.querySelector("dialog[open]") ?? document.body;
  const page = document.documentElement.clientWidth;
  const isOnPage = rect => rect.right <= page + ACROSS && rect.left >= -ACROSS;
  // What is seen of each text and of each control, and frames that would have to be moved to be read.
  const seen = [];
  const frames = new Set();

  /** One line of a text, against its box and every frame around. */
  function line(text, owner, whole) {
    const box = boxOf(owner);
    const room = box.getBoundingClientRect();
    // Dots at its end are an end.
    const rect = style(box).textOverflow === "ellipsis" ? within(whole, room) : whole;
    if (rect.bottom - rect.top < 1) return;
    if (!scrolls(box) && !fits(rect, room)) offends("is wider or taller than its box", text.data, box, rect, { box: shown(room) });
    let visible = rect;
    let isMoved = false;
    for (const frame of ancestors(box).filter(at => at !== document.documentElement && (scrolls(at) || clips(at)))) {
      const of = frame.getBoundingClientRect();
      if (scrolls(frame)) {
        if (frame.matches(MOVED)) isMoved = true;
        else if (frame.scrollWidth > frame.clientWidth + 1) frames.add(frame);
      } else if (frame !== box && !isMoved && !fits(rect, of)) offends("is cut off by a frame", text.data, box, rect, { frame: selector(frame), frame_rect: shown(of) });
      visible = within(visible, of);
    }
    if (visible.right - visible.left < 1 || visible.bottom - visible.top < 1) return;
    if (!isOnPage(visible)) offends("reaches out of the page", text.data, box, rect, { page });
    seen.push({ node: text, owner, text: text.data, rect: visible });
  }

  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT, text => text.data.trim() ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_REJECT);
  const range = document.createRange();
  while (texts.nextNode()) {
    const text = texts.currentNode;
    const owner = text.parentElement;
    if (!isVisible(owner)) continue;
    range.selectNodeContents(text);
    const lines = owner instanceof SVGElement ? [owner.getBoundingClientRect()] : [...range.getClientRects()].filter(rect => rect.width > 1);
    for (const rect of lines) line(text, owner, rect);
    if (new Set(lines.map(rect => Math.round(rect.top))).size > 1 && !owner.closest(MOVED)) for (const word of text.data.matchAll(WHOLE)) {
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const pieces = [...range.getClientRects()].filter(rect => rect.width > 1);
      if (pieces.length > 1) offends("is broken within a word", word[0], boxOf(owner), range.getBoundingClientRect());
    }
  }
  for (const frame of frames) offends("must be scrolled sideways to be read", frame.innerText, frame, frame.getBoundingClientRect(), { needs_px: frame.scrollWidth, has_px: frame.clientWidth });
  if (document.documentElement.scrollWidth > page + 1) offends("is wider than the screen", "", document.documentElement, document.documentElement.getBoundingClientRect(), { needs_px: document.documentElement.scrollWidth, has_px: page });

  for (const control of root.querySelectorAll(SOLID)) {
    const rect = control.getBoundingClientRect();
    if (rect.width < 1 || !isVisible(control) || control.closest(MOVED)) continue;
    const text = control.innerText || control.value || control.localName;
    if (!isOnPage(rect)) offends("reaches out of the page", text, control, rect, { page });
    seen.push({ node: control, owner: control, text, rect });
  }

  // A pair is told once, by its first lines that lie over one another.
  const told = new Set();
  const numbers = new Map([...new Set(seen.map(one => one.node))].map((node, nth) => [node, nth]));
  seen.sort((one, other) => one.rect.top - other.rect.top);
  for (const [nth, one] of seen.entries()) {
    for (const other of seen.slice(nth + 1)) {
      if (other.rect.top > one.rect.bottom - DOWN) break;
      if (one.node.contains(other.node) || other.node.contains(one.node)) continue;
      const both = within(one.rect, other.rect);
      const pair = [numbers.get(one.node), numbers.get(other.node)].sort((a, b) => a - b).join(" ");
      if (both.right - both.left <= ACROSS || both.bottom - both.top <= DOWN || told.has(pair)) continue;
      told.add(pair);
      offends("lies over another", one.text, one.owner, one.rect, { other: selector(other.owner), other_text: short(other.text), other_rect: shown(other.rect) });
    }
  }
  return found;
}
