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
// Shows each button that copies, and copies the text of the element that it names.
(() => {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      button.textContent = "Copied";
    });
  }
})();
