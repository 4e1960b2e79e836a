// What makes the console nicer where scripts run; every page works without. Asks nobody but this server. Never writes markup
// that did not come from this server's own pages.
(() => {
  "use strict";
  const root = document.documentElement;
  root.classList.add("js");
  const $ = (selector, from = document) => from.querySelector(selector);
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const main = $("#main");

  // ---- what is said, briefly
  const said = $("#said");
  let hush;
  function say(text) {
    if (!said) return;
    said.textContent = text;
    said.classList.add("shown");
    clearTimeout(hush);
    hush = setTimeout(() => { said.classList.remove("shown"); said.textContent = ""; }, 2500);
  }

  // ---- times that are relative, by the server's clock
  const THIN = "\u202f";
  let ahead = main && main.dataset.now ? Number(main.dataset.now) - Date.now() : 0;
  function group(n) { return String(n).replace(/\B(?=(\d{3})+$)/g, THIN); }
  function duration(ms) {
    if (ms < 1000) return `${ms} ms`;
    if (ms < 60000) return `${Math.floor(ms / 1000)} s`;
    const units = [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000]];
    const first = units.findIndex(([, size]) => ms >= size);
    const said = [];
    let rest = ms;
    units.slice(first, first + 2).forEach(([unit, size], nth) => {
      const count = Math.floor(rest / size);
      rest %= size;
      if (count > 0 || nth === 0) said.push(`${group(count)} ${unit}`);
    });
    return said.join(" ");
  }
  function relative(at) {
    const off = at - (Date.now() + ahead);
    if (Math.abs(off) < 1000) return "now";
    return off > 0 ? `in ${duration(off)}` : `${duration(-off)} ago`;
  }
  function tick(from = document) {
    for (const it of all("[data-rel]", from)) {
      const text = relative(Number(it.dataset.rel));
      if (it.textContent !== text) it.textContent = text;
    }
  }
  setInterval(() => { if (!document.hidden) tick(); }, 1000);

  // ---- charts
  const plots = new Map();
  function unit(word) {
    if (word === "ms") return v => v == null ? "–" : v > 300000 ? "> 5 min" : v < 1000 ? `${Math.round(v)} ms` : duration(Math.round(v));
    if (word === "per_second") return v => v == null ? "–" : `${rate(v)}/s`;
    return v => v == null ? "–" : group(Math.round(v));
  }
  function rate(v) {
    if (v >= 99.95) return group(Math.round(v));
    return String(Number(v >= 9.995 ? v.toFixed(1) : v.toFixed(2)));
  }
  function colour(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }
  // A token may be `light-dark(..)`: the browser says what it comes to.
  function resolved(name) {
    const probe = document.createElement("i");
    probe.hidden = true;
    probe.style.color = `var(${name})`;
    document.body.append(probe);
    const it = getComputedStyle(probe).color;
    probe.remove();
    return it || colour(name);
  }
  function chart(figure) {
    if (!window.uPlot) return;
    const data = JSON.parse(figure.dataset.chart);
    const plot = $(".plot", figure);
    if (!plot || plot.clientWidth === 0) return;
    const rows = [data.x, ...data.series.map(it => it.values)];
    const old = plots.get(figure.id);
    const shape = data.series.map(it => it.label).join();
    if (old && old.shape === shape && old.theme === theme()) {
      plot.replaceChildren(old.plot.root);
      old.figure = figure;
      old.plot.setSize({ width: plot.clientWidth, height: 150 });
      old.plot.setData(rows);
      return;
    }
    if (old) old.plot.destroy();
    const text = unit(data.unit);
    const axis = { stroke: resolved("--dim"), grid: { stroke: resolved("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const entry = { figure, shape, theme: theme() };
    const options = {
      width: plot.clientWidth, height: 150, legend: { show: false },
      cursor: { sync: { key: "console" }, points: { size: 6 }, drag: { x: false, y: false } },
      tzDate: at => uPlot.tzDate(new Date(at * 1000), data.zone),
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [
        { ...axis, size: 28, values: "{HH}:{mm}" },
        { ...axis, size: 62, values: (_, ticks) => ticks.map(text), ...(data.unit !== "per_second" ? { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6, 1e7, 1e8] } : {}) },
      ],
      series: [{}, ...data.series.map(it => ({ label: it.label, stroke: resolved(`--tone-${it.tone}`), width: 1.6, points: { show: (u, nth) => u.data[nth].filter(v => v != null).length < 8, size: 5, fill: resolved(`--tone-${it.tone}`) }, spanGaps: false }))],
      hooks: { setCursor: [it => {
        const at = it.cursor.idx;
        all(".legend b", entry.figure).forEach((cell, nth) => {
          const values = it.data[nth + 1];
          cell.textContent = text(at == null ? [...values].reverse().find(v => v != null) : values[at]);
        });
      }] },
    };
    if (data.x.length < 2) return;
    plot.replaceChildren();
    entry.plot = new uPlot(options, rows, plot);
    plots.set(figure.id, entry);
  }
  function charts(from = document) { all("[data-chart]", from).forEach(it => { try { chart(it); } catch (error) { console.warn(error); } }); }
  let resizing;
  addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => charts(), 150); });

  // ---- graphs: as wide as their frame while they can be read; larger, smaller, moved. A size that was chosen stays when the picture is
  // made again.
  const READABLE = 0.75;
  let zoomed = null;
  const size = box => $("svg", box).getAttribute("viewBox").split(" ").slice(2).map(Number);
  const scale = box => zoomed ?? Math.min(1, Math.max(READABLE, box.clientWidth / size(box)[0]));
  function graphs(from = document) {
    for (const box of all("[data-graph]", from)) {
      const [width, height] = size(box);
      $("svg", box).setAttribute("width", width * scale(box));
      $("svg", box).setAttribute("height", height * scale(box));
    }
  }
  addEventListener("resize", () => graphs());
  function zoom(box, to, x = box.clientWidth / 2, y = box.clientHeight / 2) {
    const next = Math.max(0.05, Math.min(3, to));
    const factor = next / scale(box);
    zoomed = next;
    graphs();
    box.scrollLeft = (box.scrollLeft + x) * factor - x;
    box.scrollTop = (box.scrollTop + y) * factor - y;
  }
  document.addEventListener("click", event => {
    const button = event.target.closest("[data-zoom]");
    const box = button && $("[data-graph]");
    if (!box) return;
    const [width, height] = size(box);
    const fit = Math.min(1, box.clientWidth / width, parseFloat(getComputedStyle(box).maxHeight) / height);
    zoom(box, { in: scale(box) * 1.25, out: scale(box) / 1.25, fit }[button.dataset.zoom]);
  });
  document.addEventListener("wheel", event => {
    const box = event.ctrlKey && event.target.closest("[data-graph]");
    if (!box) return;
    event.preventDefault();
    const at = box.getBoundingClientRect();
    zoom(box, scale(box) * (event.deltaY < 0 ? 1.1 : 1 / 1.1), event.clientX - at.left, event.clientY - at.top);
  }, { passive: false });
  let drag = null;
  document.addEventListener("pointerdown", event => {
    const box = event.button === 0 && event.pointerType === "mouse" && event.target.closest("[data-graph] svg")?.parentElement;
    if (box) drag = { box, x: event.clientX, y: event.clientY, left: box.scrollLeft, top: box.scrollTop, far: false };
  });
  document.addEventListener("pointermove", event => {
    if (!drag) return;
    const [x, y] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.far && Math.hypot(x, y) < 5) return;
    drag.far = true;
    drag.box.classList.add("dragged");
    drag.box.scrollLeft = drag.left - x;
    drag.box.scrollTop = drag.top - y;
  });
  document.addEventListener("pointerup", () => {
    if (!drag) return;
    drag.box.classList.remove("dragged");
    // The click at its end is no click on a node.
    if (drag.far) addEventListener("click", event => { event.preventDefault(); event.stopPropagation(); }, { capture: true, once: true });
    drag = null;
  });
  document.addEventListener("dragstart", event => { if (event.target.closest?.("[data-graph]")) event.preventDefault(); });

  // ---- theme
  function theme() {
    return root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  }
  function remember(name, value) {
    const secure = location.protocol === "https:" ? "; Secure" : "";
    document.cookie = `${name}=${encodeURIComponent(value)}; Path=/console; Max-Age=31536000; SameSite=Strict${secure}`;
  }
  const themeForm = $("[data-theme-form]");
  if (themeForm) themeForm.addEventListener("submit", event => {
    event.preventDefault();
    const next = theme() === "dark" ? "light" : "dark";
    root.dataset.theme = next;
    remember("punctual_theme", next);
    charts();
    say(`${next === "dark" ? "Dark" : "Light"} theme`);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts());
  // Paper is white: charts are drawn for it, too.
  let onScreen;
  addEventListener("beforeprint", () => { onScreen = root.dataset.theme; root.dataset.theme = "light"; charts(); });
  addEventListener("afterprint", () => {
    if (onScreen) root.dataset.theme = onScreen; else delete root.dataset.theme;
    charts();
  });

  // ---- the zone of this browser stands among those to choose
  const zones = $("#zone-quick");
  const mine = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zones && mine && !all("option", zones).some(it => it.value === mine)) {
    const option = new Option(`${mine} (this browser)`, mine);
    zones.add(option, 1);
  }

  // ---- copying
  document.addEventListener("click", async event => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    event.preventDefault();
    const text = button.dataset.copy;
    try {
      await navigator.clipboard.writeText(text);
      say("Copied");
    } catch {
      // Without a secure context there is no clipboard: what is selected can be copied by hand.
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      say(done ? "Copied" : "The browser does not let it be copied");
    }
  });

  // ---- boxes of the header close when one looks elsewhere
  document.addEventListener("click", event => {
    for (const it of all(".menu-box[open]")) if (!it.contains(event.target)) it.open = false;
  });

  // ---- questions as dialogs
  const dialog = $("#dialog");
  async function ask(address) {
    const answer = await fetch(address, { credentials: "same-origin" });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const question = page.querySelector("#confirm");
    if (!question || answer.redirected) { location.href = address; return; }
    const title = document.createElement("h2");
    title.textContent = page.querySelector("h1")?.textContent || "";
    const help = document.createElement("p");
    help.className = "help";
    help.textContent = page.querySelector(".help")?.textContent || "";
    dialog.replaceChildren(title, help, document.adoptNode(question));
    dialog.setAttribute("aria-label", title.textContent);
    tick(dialog);
    dialog.showModal();
    ($("input:not([type=hidden]), select, textarea", dialog) || $("[data-dismiss]", dialog) || dialog).focus();
  }
  document.addEventListener("click", event => {
    if (event.defaultPrevented || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const dismiss = event.target.closest("#dialog [data-dismiss]");
    if (dismiss) { event.preventDefault(); dialog.close(); return; }
    const link = event.target.closest("a[data-dialog]");
    if (!link || !dialog || !dialog.showModal) return;
    event.preventDefault();
    ask(link.href).catch(() => { location.href = link.href; });
  });
  // Nothing is sent twice by a second click.
  document.addEventListener("submit", event => {
    const form = event.target;
    if (form.method !== "post" || event.defaultPrevented) return;
    if (form.dataset.sent) { event.preventDefault(); return; }
    form.dataset.sent = "1";
    setTimeout(() => { delete form.dataset.sent; }, 5000);
  });

  // ---- choosing rows
  document.addEventListener("change", event => {
    const box = event.target;
    if (box.matches("[data-select-all]")) {
      all(`input[name="${box.dataset.selectAll}"]`).forEach(it => { it.checked = box.checked; });
    }
    if (box.matches("[data-select-all], [data-select]")) {
      const count = all("[data-select]:checked").length;
      all("[data-selected-count]").forEach(it => { it.textContent = group(count); });
      all("[data-needs-selection]").forEach(it => { it.disabled = count === 0; });
    }
  });
  all("[data-needs-selection]").forEach(it => { it.disabled = all("[data-select]:checked").length === 0; });

  // ---- filters that look while one types
  let typing;
  document.addEventListener("input", event => {
    const form = event.target.closest("form[data-filter]");
    if (!form) return;
    clearTimeout(typing);
    typing = setTimeout(() => form.requestSubmit(), event.target.tagName === "SELECT" ? 0 : 700);
  });
  // Empty fields do not stand in the address.
  document.addEventListener("submit", event => {
    if (event.target.method !== "get") return;
    for (const it of event.target.elements) if (it.name && it.value === "" && !it.disabled) { it.disabled = true; setTimeout(() => { it.disabled = false; }, 0); }
  });

  // ---- keys
  function go(step) {
    const rows = all("[data-row]").filter(it => it.getClientRects().length > 0);
    if (!rows.length) return;
    const present = rows.findIndex(it => it.classList.contains("current-row"));
    rows.forEach(it => it.classList.remove("current-row"));
    const row = Math.max(0, Math.min(rows.length - 1, present + step));
    rows[row].classList.add("current-row");
    rows[row].scrollIntoView({ block: "nearest" });
    const link = $("a[href]", rows[row]);
    if (link) link.focus({ preventScroll: true });
  }
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.closest("input, select, textarea, [contenteditable]");
    if (typing) { if (event.key === "Escape") event.target.blur(); return; }
    if (dialog && dialog.open) return;
    switch (event.key) {
      case "/": event.preventDefault(); $("#find")?.focus(); break;
      case "j": go(1); break;
      case "k": go(-1); break;
      case "x": { const box = $(".current-row [data-select]"); if (box) box.click(); break; }
      case "o": $(".current-row a[href]")?.click(); break;
      case "n": $("a.next")?.click(); break;
      case "t": $("#theme-switch")?.click(); break;
      case "?": say("/ find · j k rows · o open · x select · n next · t theme · Esc leave"); break;
    }
  });

  // ---- live
  const connection = $("#connection");
  const banner = $("#banner");
  function state(word, text) {
    if (!connection) return;
    connection.dataset.state = word;
    $(".word", connection).textContent = text;
  }
  function clock(at = Date.now()) { return new Date(at).toLocaleTimeString([], { hour12: false }); }
  const asOf = at => (at ? `as of ${clock(at)}` : "");
  function announce(text, { good = false, link } = {}) {
    if (!banner) return;
    banner.className = good ? "good" : "";
    banner.textContent = text;
    if (link) {
      const a = document.createElement("a");
      a.href = link.href;
      a.textContent = link.text;
      banner.append(" ", a);
    }
    banner.hidden = false;
    if (good) setTimeout(() => { if (banner.className === "good") banner.hidden = true; }, 4000);
  }
  // Where one has asked for more rows, a live table is its first page alone. Those of further pages stay below it, as they were loaded, and
  // it says so. What was pushed out of the first page is not lost; what is not there any more goes.
  const firstPages = new WeakMap();
  const keyed = rows => new Map(all(":scope > tr[data-key]", rows).map(it => [it.dataset.key, it]));
  document.addEventListener("htmx:beforeSwap", event => {
    const pager = event.detail.target;
    const rows = pager?.matches?.("tr.pager") && pager.closest("[data-part] tbody[data-rows]");
    if (!rows || !event.detail.shouldSwap) return;
    if (!rows.dataset.further) firstPages.set(rows, new Set(keyed(rows).keys()));
    rows.dataset.further = "1";
    const line = document.createElement("tr");
    line.className = "as-of";
    line.insertCell().colSpan = pager.cells[0].colSpan;
    line.cells[0].textContent = `As of ${clock()}; what stands above the first of these lines is live.`;
    pager.before(line);
  });
  function withFurtherRows(rows, next) {
    const fresh = keyed(next);
    const present = firstPages.get(rows) ?? new Set();
    const pager = $(":scope > tr.pager", next);
    // What there is fits into one page now.
    if (!pager || !$("a.next", pager)) return;
    const old = [...rows.children];
    const last = old.findLastIndex(it => present.has(it.dataset.key) && fresh.has(it.dataset.key));
    const further = old.filter((it, nth) => {
      const key = it.dataset.key;
      return !fresh.has(key) && (key === undefined || !present.has(key) || nth > last);
    });
    pager.replaceWith(...further);
    next.dataset.further = "1";
    firstPages.set(next, new Set(fresh.keys()));
  }
  // What came for a part in which text is selected: its newest, shown when it is selected no more.
  const kept = new Map();
  function isSelected(target) {
    const selection = getSelection();
    return Boolean(selection && !selection.isCollapsed && target.contains(selection.anchorNode));
  }
  document.addEventListener("selectionchange", () => {
    for (const it of [...kept.values()]) put(it);
  });
  function put({ id, html }) {
    const target = document.querySelector(`[data-part="${CSS.escape(id)}"]`);
    if (!target) return;
    // Whoever reads, selects or chooses in it is not disturbed.
    if (isSelected(target)) { kept.set(id, { id, html }); return; }
    kept.delete(id);
    const open = new Map(all("details[id]", target).map(it => [it.id, it.open]));
    const checked = new Set(all("input[data-select]:checked", target).map(it => it.value));
    const scrolled = all(".scroll", target).map(it => [it.scrollLeft, it.scrollTop]);
    const focused = target.contains(document.activeElement) ? document.activeElement : null;
    const key = focused && (focused.id ? `#${CSS.escape(focused.id)}` : focused.getAttribute("href") ? `a[href="${CSS.escape(focused.getAttribute("href"))}"]` : null);
    const heads = all("[data-row]", target);
    const current = heads.findIndex(it => it.classList.contains("current-row"));
    const currentKey = heads[current]?.dataset.key;
    const next = new DOMParser().parseFromString(html, "text/html").body;
    const tables = all("tbody[data-rows]", next);
    all("tbody[data-rows]", target).forEach((it, nth) => { if (it.dataset.further && tables[nth]) withFurtherRows(it, tables[nth]); });
    target.replaceChildren(...next.childNodes);
    all("details[id]", target).forEach(it => { if (open.has(it.id)) it.open = open.get(it.id); });
    all("input[data-select]", target).forEach(it => { it.checked = checked.has(it.value); });
    graphs(target);
    all(".scroll", target).forEach((it, nth) => { if (scrolled[nth]) [it.scrollLeft, it.scrollTop] = scrolled[nth]; });
    const rowNow = currentKey === undefined ? all("[data-row]", target)[current] : all("[data-row]", target).find(it => it.dataset.key === currentKey);
    rowNow?.classList.add("current-row");
    if (key) $(key, target)?.focus({ preventScroll: true });
    tick(target);
    charts(target);
    if (window.htmx) htmx.process(target);
  }
  if (main && main.dataset.live && window.EventSource) {
    let source, lostAt = null, again, wait = 1000, heard, isFull = false;
    const close = () => { source?.close(); source = undefined; clearTimeout(again); clearTimeout(heard); };
    const lost = () => {
      close();
      if (!lostAt) lostAt = clock();
      state("lost", "No answer");
      announce(`The server does not answer since ${lostAt}. What you see is as of then; it is asked again and again.`);
      again = setTimeout(open, wait);
      wait = Math.min(wait * 1.6, 5000);
    };
    const alive = () => { clearTimeout(heard); heard = setTimeout(lost, 12000); };
    const back = ({ as_of_ms: at, is_slow: isSlow } = {}) => {
      wait = 1000;
      if (isSlow) state("slow", `Slow, ${asOf(at)}`); else state("live", "Live");
      if (connection) connection.title = asOf(at);
      if (isFull && banner) banner.hidden = true;
      isFull = false;
      if (lostAt) announce(`The server answers again. It did not since ${lostAt}.`, { good: true });
      lostAt = null;
    };
    const open = () => {
      close();
      if (document.hidden) return;
      source = new EventSource(main.dataset.live);
      alive();
      source.addEventListener("hello", event => {
        alive();
        if (JSON.parse(event.data).build !== main.dataset.build) {
          announce("The server was updated.", { link: { href: location.href, text: "Load the page anew" } });
          lostAt = null;
          state("live", "Live");
          wait = 1000;
        }
      });
      source.addEventListener("part", event => { alive(); put(JSON.parse(event.data)); });
      source.addEventListener("ok", event => {
        alive();
        if (banner && banner.dataset.fault) { banner.hidden = true; delete banner.dataset.fault; }
        $("#kept")?.remove();
        back(JSON.parse(event.data));
      });
      // The server is there, and its look at this page lasts.
      source.addEventListener("slow", event => {
        alive();
        state("slow", `Slow ${asOf(JSON.parse(event.data).as_of_ms)}`.trim());
      });
      source.addEventListener("full", event => {
        const { of, again_ms: after } = JSON.parse(event.data);
        close();
        lostAt = null;
        isFull = true;
        state("full", "Not live");
        announce(`${of === "token" ? "So many pages of your token are open that this one is" : "So many pages are open at this server that this one is"} shown without being live. It asks again each minute; load it anew to see what has changed.`);
        again = setTimeout(open, after * (0.8 + 0.4 * Math.random()));
      });
      source.addEventListener("fault", event => {
        alive();
        state("lost", "Fault");
        announce(`The server answers, but not with this page. ${JSON.parse(event.data).text}`);
        banner.dataset.fault = "1";
      });
      source.addEventListener("end", event => {
        const { why } = JSON.parse(event.data);
        if (why === "signed_out") {
          close();
          state("lost", "Signed out");
          announce("You are signed out: the session has ended, or its token is good no more.", { link: { href: `/console/login?next=${encodeURIComponent(location.pathname + location.search)}&why=refused`, text: "Sign in" } });
        } else if (why === "stopping") lost();
        else if (why === "still") { close(); state("still", ""); }
        else open();
      });
      source.onerror = lost;
    };
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) { close(); state("paused", "Paused"); } else open();
    });
    addEventListener("pagehide", close);
    addEventListener("pageshow", event => { if (event.persisted) open(); });
    open();
  }

  // Where the menu is a line that scrolls, one sees where one is.
  const menu = $(".menu");
  const here = menu && $("a[aria-current]", menu);
  if (here && menu.scrollWidth > menu.clientWidth) menu.scrollLeft = here.offsetLeft - (menu.clientWidth - here.offsetWidth) / 2;
  document.addEventListener("htmx:afterSwap", () => { tick(); });
  tick();
  charts();
  $("#faults")?.focus();
})();
