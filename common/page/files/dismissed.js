// What was wrong and somebody has seen: remembered in the browser, by the ids of the jobs.

const KEY = "muster-dismissed", MOST = 500;

// Returns the ids in order of dismissal. Nothing is dismissed where the browser keeps nothing.
export function dismissedJobs() {
  try {
    const ids = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(ids) ? ids : [];
  } catch {
    return [];
  }
}

export function dismiss(job) {
  const ids = dismissedJobs().filter((each) => each !== job);
  try {
    localStorage.setItem(KEY, JSON.stringify([...ids, job].slice(-MOST)));
  } catch {
    // A browser that keeps nothing shows it again.
  }
}
