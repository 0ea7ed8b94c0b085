"use strict";
(function () {
  const form = document.getElementById("filters");
  if (!form) return;
  const search = document.getElementById("search");
  const findings = Array.from(document.querySelectorAll("details.finding"));
  const checked = (name) =>
    new Set(Array.from(form.querySelectorAll("input:checked"))
      .filter((box) => box.name === name)
      .map((box) => box.value));
  function apply() {
    const rules = checked("rule");
    const severities = checked("severity");
    const text = search.value.toLowerCase();
    for (const finding of findings) {
      finding.hidden =
        !rules.has(finding.dataset.rule) ||
        !severities.has(finding.dataset.severity) ||
        !finding.textContent.toLowerCase().includes(text);
    }
  }
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
})();
