// Keeps a page up to date while somebody looks at it. Without this script, the reader reloads the page.
"use strict";
(() => {
  const main = () => document.getElementById("main");
  const say = (text) => { const at = document.getElementById("connection"); if (at.textContent !== text) at.textContent = text; };
  let source = null;
  let late = null;

  const isBusy = () => { const at = document.activeElement; return at && main().contains(at) && at.matches("input, select"); };

  async function renew() {
    // The text that a reader is typing stays.
    if (isBusy()) { say("Changed: reload to see it"); return; }
    const answer = await fetch(location.href, { credentials: "same-origin" });
    // An answer that refuses is a page too: it says why.
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("main");
    const focus = document.activeElement && document.activeElement.getAttribute("href");
    main().replaceWith(fresh);
    if (focus) { const same = [...fresh.querySelectorAll("a")].find((link) => link.getAttribute("href") === focus); if (same) same.focus(); }
    start();
  }

  function stop() { clearTimeout(late); late = null; if (source) { source.close(); source = null; } }

  function start() {
    stop();
    const { follow, version } = main().dataset;
    if (!follow) { say(""); return; }
    if (document.hidden) return;
    source = new EventSource(`${follow}?seen=${version}`);
    // The server ends each connection after a minute, and the browser connects again: that is not worth a message.
    source.onopen = () => { clearTimeout(late); late = null; say("Live"); };
    source.onerror = () => { late = late || setTimeout(() => say("Not connected: is tillerman ui still running?"), 5000); };
    source.addEventListener("change", () => { stop(); renew().catch(() => { say("Not up to date: reload"); }); });
  }

  // Nothing is requested for a page that nobody looks at.
  document.addEventListener("visibilitychange", () => { if (document.hidden) stop(); else start(); });
  addEventListener("pagehide", stop);
  addEventListener("pageshow", start);
})();
