#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/job_argument.h"
#include "client/commands/commands.h"
#include "client/terminal/collective_table.h"
#include "client/terminal/format.h"
#include "client/terminal/progress.h"
#include "client/terminal/row_counts.h"
#include "client/terminal/starving_experts.h"
#include "client/terminal/task_table.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/job/validation/job_validator.h"
#include "common/text/format_bytes.h"
#include "common/text/printable.h"
#include "proto/job_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

void PrintField(const char* name, const std::string& value) {
  if (!value.empty()) Print("%-12s %s\n", name, PrintableLine(value));
}

// Prints a text of several lines.
void PrintLines(const char* name, absl::string_view text) {
  for (const absl::string_view line :
       absl::StrSplit(absl::StripTrailingAsciiWhitespace(text), '\n')) {
    PrintField(name, std::string(line));
    name = "";
  }
}

std::string Labels(const v1::JobSpec& spec) {
  const std::map<std::string, std::string> labels(spec.labels().begin(), spec.labels().end());
  return absl::StrJoin(labels, ", ", absl::PairFormatter("="));
}

std::string Servers(const v1::JobStatus& job) {
  std::map<std::string, int> partitions;
  for (const v1::PartitionPlacement& partition : job.partitions()) {
    for (const v1::Replica& replica : partition.replicas()) ++partitions[replica.server_id()];
  }
  std::string text;
  for (const auto& [server, count] : partitions) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", server, " (", count, " partitions)");
  }
  return text;
}

// Describes how a server that was away came back: what it read of its logs, and how fast.
std::string Replay(const v1::ReplayStatus& replay) {
  std::string text = absl::StrCat(
      replay.server_id(), ": ", replay.partitions(), " partitions, ", FormatCount(replay.records()),
      " records, ", FormatBytes(replay.bytes()), " in ", FormatTime(replay.seconds()));
  if (replay.seconds() > 0) {
    absl::StrAppend(&text, ", ",
                    FormatBytes(static_cast<double>(replay.bytes()) / replay.seconds()), "/s");
  }
  return text;
}

// Says how the time since the first step was spent, where there is any; what took none is left out.
std::string Goodput(const v1::JobStatus& job) {
  const v1::Goodput& spent = job.goodput();
  if (spent.seconds() <= 0) return "";
  const auto percent = [&](double seconds) {
    return absl::StrFormat("%.1f%%", 100 * seconds / spent.seconds());
  };
  std::string text =
      absl::StrCat(percent(spent.productive_seconds()), " of ", FormatSeconds(spent.seconds()));
  const auto add = [&](double seconds, absl::string_view what) {
    if (seconds > 0) absl::StrAppend(&text, ", ", percent(seconds), " ", what);
  };
  const uint64_t again = spent.redone_steps();
  add(spent.redone_seconds(), absl::StrCat("redone (", again, again == 1 ? " step)" : " steps)"));
  add(spent.waiting_seconds(), "waiting");
  add(spent.evaluation_seconds(), "evaluations");
  add(spent.checkpoint_seconds(), "checkpoints");
  return text;
}

// Most decisions that are shown, the last ones.
constexpr int kMostDecisions = 5;

// Describes what was decided while the job ran.
std::string Decision(const v1::Adjustment& decided) {
  std::vector<std::string> changes;
  if (decided.rate_factor() != 1) {
    changes.push_back(absl::StrCat(decided.rate_factor(), " times the rate"));
  }
  if (decided.batch_size() > 0) {
    changes.push_back(absl::StrCat("batches of ", decided.batch_size()));
  }
  if (decided.skipped_examples() > 0) {
    changes.push_back(absl::StrCat("past ", decided.skipped_examples(), " examples"));
  }
  return absl::StrCat("from step ", decided.clock(), " on ", absl::StrJoin(changes, ", "), ": ",
                      decided.reason());
}

void PrintText(const v1::JobStatus& job, const RowCounts& rows) {
  const v1::JobProgress& progress = job.progress();
  PrintField("job", absl::StrCat(job.job_id(), "  ", job.spec().name()));
  PrintField("owner", job.spec().owner());
  PrintLines("about", job.spec().description());
  PrintField("labels", Labels(job.spec()));
  PrintField("state", StateName(job));
  PrintField(HasEnded(job) ? "reason" : "last event", MessageBeforeTraceback(job));
  PrintField("waits for", job.waiting_for());
  // Only a program knows how many steps it makes.
  const std::string of_all =
      progress.total_steps() > 0 ? absl::StrCat(" of ", progress.total_steps()) : "";
  PrintField("step", absl::StrCat(progress.step(), of_all));
  if (progress.step() > 0) {
    if (progress.has_loss()) {
      PrintField("loss", absl::StrCat(LossText(progress),
                                      job.state() == v1::SUCCEEDED
                                          ? " (training examples of the last step)"
                                          : " (mean of the steps since the last report)"));
    }
    PrintField("speed", absl::StrCat(FormatNumber(progress.examples_per_second()), " examples/s"));
    PrintField(
        "traffic",
        absl::StrCat(FormatBytes(progress.bytes_pushed_per_step()), " pushed and ",
                     FormatBytes(progress.bytes_pulled_per_step()), " pulled per step and worker"));
    if (progress.bytes_sent_per_step() > 0) {
      PrintField("all-reduce", absl::StrCat(FormatBytes(progress.bytes_sent_per_step()),
                                            " sent per step and worker"));
    }
    PrintField("staleness", absl::StrCat("mean ", FormatNumber(progress.mean_staleness()),
                                         ", most ", progress.max_staleness(), " clocks"));
  }
  if (job.spec().update().backup_workers() > 0) {
    PrintField("dropped", absl::StrCat(FormatCount(job.dropped_examples()),
                                       " examples of workers that steps did not wait for"));
  }
  const std::string left = progress.seconds_left() > 0
                               ? absl::StrCat(", ", FormatSeconds(progress.seconds_left()), " left")
                               : "";
  PrintField("time", absl::StrCat(FormatSeconds(progress.training_seconds()), " trained", left));
  PrintField("goodput", Goodput(job));
  PrintField("checkpoint",
             job.checkpoint_uri().empty()
                 ? "none yet"
                 : absl::StrCat("clock ", job.checkpoint_clock(), " in ", job.checkpoint_uri()));
  if (job.has_best()) {
    PrintField("best", absl::StrCat("clock ", job.best().clock(), ", ", MetricText(job.best()),
                                    ": ", job.job_id(), "@best"));
  }
  const char* name = "decided";
  for (int i = std::max(0, job.adjustments_size() - kMostDecisions); i < job.adjustments_size();
       ++i) {
    PrintField(name, Decision(job.adjustments(i)));
    name = "";
  }
  name = "left";
  for (const v1::LeftWorker& left : job.left_workers()) {
    PrintField(name, absl::StrCat("worker ", left.worker_id(), ", which ", left.reason()));
    name = "";
  }
  name = "experts";
  for (const std::string& line : StarvingExperts(job)) {
    PrintField(name, line);
    name = "";
  }
  PrintField("parallelism", DivisionName(job.spec()));
  for (const std::string& group : job.split_groups()) PrintField("slow groups", group);
  PrintField("after a loss", job.recovery());
  PrintField("reserved", absl::StrCat(FormatBytes(job.predicted_server_bytes()), " on servers, ",
                                      FormatBytes(job.predicted_worker_bytes()), " on workers"));
  PrintField("servers", Servers(job));
  for (const v1::ReplayStatus& replay : job.replays()) PrintField("replayed", Replay(replay));
  PrintField("rows", DescribeRows(rows));
  PrintField("generation",
             absl::StrCat(job.generation(), ", shard map version ", job.shard_map_version()));
  if (!job.traceback().empty()) {
    Print("\nlast lines of the program that failed:\n%s", TracebackText(job));
  }
  if (job.tasks_size() > 0) Print("\n%s", TaskTable(job));
  if (job.evaluations_size() > 0) {
    std::vector<std::vector<std::string>> rows = {{"CLOCK", "METRIC", "VALUE", "LOSS", "EXAMPLES"}};
    for (const v1::EvaluationResult& evaluation : job.evaluations()) {
      rows.push_back({absl::StrCat(evaluation.clock()), evaluation.metric(),
                      MetricValue(evaluation), FormatLoss(evaluation.loss()),
                      FormatCount(evaluation.examples())});
    }
    Print("\n%s", FormatTable(rows));
  }
}

void PrintCollectives(const v1::ListCollectivesReply& reply) {
  if (reply.slots_size() == 0) {
    Print(
        "no slot has reported collective calls: tasks of a running all-reduce job report them when "
        "asked, and when a call fails; so do the processes of a program on Muster's collectives\n");
    return;
  }
  for (const v1::SlotCollectives& slot : reply.slots()) {
    Print("slot %u, reported at %s\n", slot.slot(),
          absl::FormatTime("%H:%M:%E3S UTC", absl::FromUnixMillis(slot.unix_ms()),
                           absl::UTCTimeZone()));
    Print("%s\n", CollectiveTable(slot));
  }
}

absl::Status ShowCollectives(Session& session, JobClient& jobs, const std::string& job_id) {
  v1::ListCollectivesReply reply;
  MUSTER_RETURN_IF_ERROR(jobs.Collectives(job_id, reply));
  if (session.output == Session::Output::kJson) {
    session.PrintJson(reply);
  } else {
    PrintCollectives(reply);
  }
  return absl::OkStatus();
}

}  // namespace

void AddStatus(CLI::App& app, Session& session) {
  auto collectives = std::make_shared<bool>(false);
  auto* command = AddJobCommand(
      app, session, "status", "Show a job's state and progress",
      [collectives](Session& session, JobClient& jobs, const std::string& job_id) -> absl::Status {
        if (*collectives) return ShowCollectives(session, jobs, job_id);
        v1::JobStatus job;
        MUSTER_RETURN_IF_ERROR(jobs.Get(job_id, job));
        if (session.output == Session::Output::kJson) {
          session.PrintJson(job);
        } else {
          std::string metrics;
          MUSTER_RETURN_IF_ERROR(jobs.Metrics(metrics));
          PrintText(job, RowCountsOf(metrics, job.job_id()));
        }
        return absl::OkStatus();
      });
  command->add_flag(
      "--collectives", *collectives,
      "Ask the tasks for their latest collective calls (at most 1,000 per slot) and show them; "
      "--output json has whole labels and exact counts and times");
  command->footer("Example: muster status JOB --output json");
}

}  // namespace muster
