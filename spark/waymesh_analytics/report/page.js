// The text in a search field hides the rows of its table that do not contain it.
document.querySelectorAll("input[type=search]").forEach(field => field.addEventListener("input", () => {
  const wanted = field.value.toLowerCase();
  for (const row of field.closest("section").querySelector("table").tBodies[0].rows) {
    row.hidden = !row.textContent.toLowerCase().includes(wanted);
  }
}));
// A click on a column heading sorts the table by that column, in descending order first.
document.querySelectorAll("th").forEach(head => head.addEventListener("click", () => {
  const body = head.closest("table").tBodies[0], column = head.cellIndex;
  const down = head.ariaSort !== "descending";
  head.parentNode.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
  head.ariaSort = down ? "descending" : "ascending";
  const value = row => {
    const cell = row.cells[column];
    return head.classList.contains("n") ? parseFloat(cell.dataset.v ?? "-Infinity") : cell.textContent;
  };
  const order = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0) * (down ? -1 : 1);
  [...body.rows].sort(order).forEach(row => body.append(row));
}));
