#include "client/terminal/top_frame.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/terminal/format.h"
#include "client/terminal/progress.h"
#include "client/terminal/task_table.h"
#include "common/text/format_bytes.h"
#include "common/text/printable.h"
#include "common/text/utf8.h"
#include "proto/job_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

// Width of the other columns of the jobs' table, and the least width of a name.
constexpr size_t kOtherColumns = 56;
constexpr size_t kLeastNameColumns = 24;
// Width at which a daemon's name leaves room for the other columns.
constexpr size_t kDaemonColumns = 20;
// Most daemons that are listed, and most slots of a job.
constexpr size_t kMostDaemons = 8;
constexpr size_t kMostSlots = 8;

// Returns the text's first characters, `columns` at most.
std::string Cut(absl::string_view text, size_t columns) {
  absl::string_view rest = text;
  for (size_t i = 0; i < columns && !rest.empty(); ++i) {
    rest.remove_prefix(FirstCodePoint(rest).bytes);
  }
  if (rest.empty()) return std::string(text);
  absl::string_view kept = text.substr(0, text.size() - rest.size());
  while (!kept.empty() && (kept.back() & 0xC0) == 0x80) kept.remove_suffix(1);
  if (!kept.empty()) kept.remove_suffix(1);
  return absl::StrCat(kept, "~");
}

std::string JobName(const v1::JobStatus& job, size_t columns) {
  const std::string& name = job.spec().name();
  const size_t rest = columns - std::min(columns, kOtherColumns);
  return Cut(PrintableLine(name.empty() ? job.job_id() : name), std::max(rest, kLeastNameColumns));
}

std::vector<const v1::JobStatus*> InOrder(const v1::ListJobsReply& jobs) {
  std::vector<const v1::JobStatus*> ordered;
  for (const v1::JobStatus& job : jobs.jobs()) {
    if (!HasEnded(job)) ordered.push_back(&job);
  }
  std::stable_partition(ordered.begin(), ordered.end(),
                        [](const v1::JobStatus* job) { return job->state() == v1::RUNNING; });
  return ordered;
}

std::string Sums(const std::vector<const v1::JobStatus*>& jobs,
                 const v1::GetClusterReply& cluster) {
  size_t running = 0, slow = 0;
  for (const v1::JobStatus* job : jobs) {
    running += job->state() == v1::RUNNING;
    for (const v1::TaskStatus& task : job->tasks()) slow += !task.slow().empty();
  }
  uint32_t used = 0, slots = 0;
  size_t lost = 0;
  for (const v1::DaemonStatus& daemon : cluster.daemons()) {
    lost += !daemon.live();
    if (!daemon.live()) continue;
    used += daemon.slots_used();
    slots += daemon.slots();
  }
  std::string text = absl::StrCat(running, " running, ", jobs.size() - running, " waiting; ", used,
                                  " of ", slots, " slots used");
  if (slow > 0) absl::StrAppend(&text, "; ", slow, slow == 1 ? " slow slot" : " slow slots");
  if (lost > 0) absl::StrAppend(&text, "; ", lost, lost == 1 ? " lost daemon" : " lost daemons");
  return text;
}

std::string JobTable(const std::vector<const v1::JobStatus*>& jobs, size_t columns) {
  if (jobs.empty()) return "no job runs or waits\n";
  std::vector<std::vector<std::string>> rows = {
      {"JOB", "STATE", "STEP", "LOSS", "EXAMPLES/S", "LEFT"}};
  std::string waits;
  for (const v1::JobStatus* job : jobs) {
    const v1::JobProgress& progress = job->progress();
    rows.push_back(
        {JobName(*job, columns), StateName(*job),
         progress.total_steps() > 0 ? absl::StrCat(progress.step(), "/", progress.total_steps())
                                    : absl::StrCat(progress.step()),
         LossText(progress),
         progress.examples_per_second() > 0 ? FormatNumber(progress.examples_per_second()) : "-",
         progress.seconds_left() > 0 ? FormatSeconds(progress.seconds_left()) : "-"});
    if (!job->waiting_for().empty()) {
      absl::StrAppend(&waits, JobName(*job, columns), ": ", PrintableLine(job->waiting_for()),
                      "\n");
    }
  }
  return absl::StrCat(FormatTable(rows), waits);
}

std::string DaemonTable(const v1::GetClusterReply& cluster) {
  std::vector<const v1::DaemonStatus*> daemons;
  for (const v1::DaemonStatus& daemon : cluster.daemons()) daemons.push_back(&daemon);
  std::stable_partition(daemons.begin(), daemons.end(),
                        [](const v1::DaemonStatus* daemon) { return !daemon->live(); });
  std::vector<std::vector<std::string>> rows = {
      {"DAEMON", "KIND", "LIVE", "SLOTS", "MEMORY RESERVED"}};
  for (size_t i = 0; i < std::min(daemons.size(), kMostDaemons); ++i) {
    const v1::DaemonStatus& daemon = *daemons[i];
    const bool worker = daemon.kind() == v1::WORKER;
    rows.push_back({Cut(PrintableLine(daemon.id()), kDaemonColumns), worker ? "worker" : "server",
                    daemon.live() ? "yes" : "LOST",
                    worker ? absl::StrCat(daemon.slots_used(), "/", daemon.slots()) : "-",
                    absl::StrCat(FormatBytes(static_cast<double>(daemon.memory_reserved_bytes())),
                                 " of ", FormatBytes(static_cast<double>(daemon.memory_bytes())))});
  }
  std::string text = FormatTable(rows);
  if (daemons.size() > kMostDaemons) {
    absl::StrAppend(&text, "and ", daemons.size() - kMostDaemons, " more daemons\n");
  }
  return text;
}

std::string Slots(const v1::JobStatus& job, size_t columns) {
  v1::JobStatus shown = job;
  auto& tasks = *shown.mutable_tasks();
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const v1::TaskStatus& a, const v1::TaskStatus& b) {
                     return a.slow().empty() < b.slow().empty();
                   });
  const size_t all = tasks.size();
  while (static_cast<size_t>(tasks.size()) > kMostSlots) tasks.RemoveLast();
  for (v1::TaskStatus& task : tasks) {
    task.set_worker_id(Cut(PrintableLine(task.worker_id()), kDaemonColumns));
  }
  std::string text = absl::StrCat("\nslots of ", JobName(job, columns), "\n", TaskTable(shown));
  if (all > kMostSlots) absl::StrAppend(&text, "and ", all - kMostSlots, " more slots\n");
  return text;
}

}  // namespace

std::string TopFrame(const v1::ListJobsReply& jobs, const v1::GetClusterReply& cluster,
                     const FrameSize& size, absl::string_view trouble) {
  const std::vector<const v1::JobStatus*> ordered = InOrder(jobs);
  std::string text;
  if (!trouble.empty()) text = absl::StrCat("what is below is old: ", PrintableLine(trouble), "\n");
  absl::StrAppend(&text, Sums(ordered, cluster), "\n\n", JobTable(ordered, size.columns), "\n",
                  DaemonTable(cluster));
  for (const v1::JobStatus* job : ordered) {
    if (job->state() == v1::RUNNING && !job->tasks().empty())
      absl::StrAppend(&text, Slots(*job, size.columns));
  }
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  lines.pop_back();  // After the last line break.
  if (lines.size() > size.lines) {
    const size_t left_out = lines.size() - size.lines + 1;
    lines.resize(size.lines - 1);
    lines.push_back(absl::StrCat("and ", left_out, " more lines"));
  }
  std::string frame;
  for (const std::string& line : lines) {
    absl::StrAppend(&frame, Cut(line, size.columns), "\n");
  }
  return frame;
}

}  // namespace muster
