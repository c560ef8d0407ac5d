// Search results: guide, tutorials, functions and classes first, then derivations and
// measurements, and last methods of results and building blocks.
var Scorer = {
  score: ([page, title, anchor, description, score]) => {
    const names = [title, page].map((each) => each.replace(/^(generated\/)?mvpa_kfda\./, ""));
    if (page.startsWith("generated/") && names.some((name) => name.includes("."))) {
      return score - 30;
    }
    if (page.startsWith("method/")) return score + 5;
    const lists = /^(benchmarks|changes|contributing|glossary|api|api_inside)$/;
    return lists.test(page) ? score : score + 10;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
