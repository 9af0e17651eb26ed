// The trials of a search as far as the page knows them: read page by page, and again only where they may have changed.
import { api } from "./api.js";
import { isSettled, trialRow } from "./search_trials.js";

const PAGE = 100;
// Pages that one poll reads; the first one reads all.
const MOST_PAGES = 3;

export class TrialPages {
  constructor(search) {
    this.search = search;
    // Rows by page.
    this.pages = [];
    this.stale = new Set();
    // Changes with the content.
    this.version = 0;
  }

  // Reads what may have changed since `status`, the search's, was another. Pages with running trials come first.
  async poll(status) {
    const { spec, ...changing } = status;
    const key = JSON.stringify(changing);
    if (key !== this.key) {
      const ended = Boolean(status.finishedUnixMs), begun = Number(status.begun ?? 0);
      for (let page = 0; page * PAGE < begun; ++page) {
        const rows = this.pages[page];
        if (ended || !rows || rows.length < Math.min(PAGE, begun - page * PAGE) || !rows.every(isSettled)) this.stale.add(page);
      }
      this.key = key;
    }
    const running = (page) => Number(this.pages[page]?.some(({ state }) => state === "RUNNING") ?? true);
    const next = [...this.stale].sort((a, b) => running(b) - running(a)).slice(0, this.pages.length > 0 ? MOST_PAGES : Infinity);
    for (const page of next) await this.read(page, status);
  }

  async read(page, status) {
    const { trials } = await api.trials(this.search, { firstTrial: page * PAGE + 1, pageSize: PAGE });
    this.pages[page] = (trials ?? []).map((trial) => trialRow(trial, status));
    this.stale.delete(page);
    ++this.version;
  }

  rows() {
    return this.pages.flat();
  }
}
