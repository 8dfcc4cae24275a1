// Keeps relative times true while a page is open. The server wrote them as they were then.
(() => {
  const told = (seconds) => {
    for (const [unit, length, limit] of [["s", 1, 120], ["m", 60, 7200], ["h", 3600, 172800]]) {
      if (seconds < limit) return `${Math.floor(seconds / length)}${unit} ago`;
    }
    return `${Math.floor(seconds / 86400)}d ago`;
  };
  const refresh = () => {
    for (const one of document.querySelectorAll("time[data-ago]")) {
      const then = Date.parse(one.dateTime);
      if (Number.isNaN(then)) continue;
      const text = told(Math.max(0, (Date.now() - then) / 1000));
      if (one.textContent !== text) one.textContent = text;
    }
  };
  setInterval(refresh, 5000);
})();

// Copies the text that a button names. It is selected too, for where no page may copy.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  const text = button && document.getElementById(button.dataset.copy);
  if (!text) return;
  getSelection().selectAllChildren(text);
  let copied = false;
  try {
    await navigator.clipboard.writeText(text.textContent);
    copied = true;
  } catch {
    copied = document.execCommand("copy");
  }
  button.nextElementSibling.textContent = copied ? "Copied" : "Selected: copy it with the keyboard";
});

// Keeps the title true, which stands outside the part that an update replaces.
(() => {
  const live = document.getElementById("live");
  if (!live) return;
  const end = document.title.slice(document.title.indexOf(" \u00b7 "));
  new MutationObserver(() => {
    const source = live.querySelector("[data-title]");
    if (source && document.title !== source.dataset.title + end) document.title = source.dataset.title + end;
  }).observe(live, { attributes: true, childList: true, subtree: true });
})();

// A choice in a row of filters applies at once, and keeps the focus; the button is for the search.
(() => {
  const key = "fairlead-filter";
  document.addEventListener("change", (event) => {
    if (!event.target.matches("form.filters select")) return;
    try { sessionStorage.setItem(key, event.target.id); } catch { /* storage may be forbidden */ }
    event.target.form.requestSubmit();
  });
  try {
    document.getElementById(sessionStorage.getItem(key) ?? "")?.focus();
    sessionStorage.removeItem(key);
  } catch { /* storage may be forbidden */ }
})();
