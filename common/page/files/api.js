// The coordinator's answers. Everything is read by GET; a job can be cancelled and described.

const TOKEN = "muster-token";

// The coordinator refused a request.
export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// The coordinator did not answer, or is too busy to.
export class Unreachable extends Error {}

export function setToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

export function hasToken() {
  return Boolean(sessionStorage.getItem(TOKEN));
}

async function request(path, options = {}, token = sessionStorage.getItem(TOKEN)) {
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let response, body;
  const signal = AbortSignal.timeout(10000);
  try {
    response = await fetch(`/api/v1/${path}`, { ...options, headers, signal, cache: "no-store", redirect: "error" });
    body = await response.json();
  } catch (error) {
    if (response && !response.ok) throw new ApiError(response.status, "UNKNOWN", response.statusText);
    throw new Unreachable(error.message);
  }
  if (response.ok) return body;
  if (response.status === 503) throw new Unreachable(body.error?.message);
  throw new ApiError(response.status, body.error?.code ?? "UNKNOWN", body.error?.message ?? response.statusText);
}

// Returns the query string of an object; lists become repeated names, undefined and empty values are left out.
export function queryOf(parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== "" && each !== false) query.append(name, each);
    }
  }
  const text = query.toString();
  return text ? `?${text}` : "";
}

const jobPath = (job) => `jobs/${encodeURIComponent(job)}`;

const searchPath = (search) => `searches/${encodeURIComponent(search)}`;

export const api = {
  page: () => request("page"),
  cluster: () => request("cluster"),
  jobs: (parameters) => request(`jobs${queryOf(parameters)}`),
  job: (job) => request(jobPath(job)),
  metrics: (job, parameters) => request(`${jobPath(job)}/metrics${queryOf(parameters)}`),
  events: (job) => request(`${jobPath(job)}/events`),
  log: (job, parameters) => request(`${jobPath(job)}/log${queryOf(parameters)}`),
  collectives: (job) => request(`${jobPath(job)}/collectives`),
  checkpoints: (job) => request(`${jobPath(job)}/checkpoints`),
  searches: (parameters) => request(`searches${queryOf(parameters)}`),
  search: (search) => request(searchPath(search)),
  trials: (search, parameters) => request(`${searchPath(search)}/trials${queryOf(parameters)}`),
  // These take the token given, or else the one that is known.
  cancel: (job, reason, token) => post(`${jobPath(job)}/cancel`, { reason }, token),
  describe: (job, description, token) => post(`${jobPath(job)}/describe`, { description }, token),
};

function post(path, body, token) {
  return request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }, token);
}

// Returns undefined for a job that was deleted in the meantime.
export function unlessMissing(error) {
  if (!(error instanceof ApiError) || error.status !== 404) throw error;
}

// Returns {jobs, more}: the jobs of all pages of a list, at most about `most`, and whether there are more.
export async function allJobs(parameters, most) {
  const jobs = [];
  let pageToken;
  do {
    const reply = await api.jobs({ ...parameters, pageToken });
    jobs.push(...(reply.jobs ?? []));
    pageToken = reply.nextPageToken;
  } while (pageToken && jobs.length < most);
  return { jobs, more: Boolean(pageToken) };
}
