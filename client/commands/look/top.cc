#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "client/cluster/session.h"
#include "client/commands/commands.h"
#include "client/terminal/interrupt.h"
#include "client/terminal/terminal.h"
#include "client/terminal/top_frame.h"
#include "common/base/status_macros.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

// Escape codes of xterm, which all terminals of today know.
constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l";
constexpr char kLeave[] = "\x1b[?25h\x1b[?1049l";
constexpr char kHome[] = "\x1b[H";
constexpr char kEndOfLine[] = "\x1b[K\r\n";
constexpr char kClearRest[] = "\x1b[J";

void Draw(absl::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// Returns the size of the terminal on standard output; 80 columns and 24 lines if it is unknown.
FrameSize TerminalSize() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2 || size.ws_row < 2) return {};
  return {.columns = size.ws_col, .lines = size.ws_row};
}

// Draws on the whole terminal: on its second screen, without a cursor, for as long as the object
// lives. The destructor brings back what the terminal showed before.
class Screen {
 public:
  Screen() { Draw(kEnter); }
  ~Screen() { Draw(kLeave); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Replaces what is shown. `frame` is printable (common/text/printable.h), and its lines end with
  // line breaks.
  void Show(absl::string_view frame) {
    // Nothing is cleared before it is drawn over, so that nothing flickers.
    Draw(absl::StrCat(kHome, absl::StrReplaceAll(frame, {{"\n", kEndOfLine}}), kClearRest));
  }
};

constexpr absl::Duration kInterval = absl::Seconds(1);
// Most jobs that are asked for; more than fit on a screen.
constexpr size_t kMostShownJobs = 100;

struct Cluster {
  v1::ListJobsReply jobs;
  v1::GetClusterReply daemons;
};

absl::Status Read(JobClient& jobs, Cluster& cluster) {
  v1::ListJobsRequest request;
  for (const v1::JobState state : {v1::PENDING, v1::PLACING, v1::RUNNING, v1::RECOVERING}) {
    request.add_states(state);
  }
  request.set_newest_first(true);
  MUSTER_RETURN_IF_ERROR(jobs.List(std::move(request), cluster.jobs, kMostShownJobs));
  return jobs.Cluster(cluster.daemons);
}

absl::Status ShowOnce(Session& session) {
  MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
  Cluster cluster;
  MUSTER_RETURN_IF_ERROR(Read(*jobs, cluster));
  if (session.output == Session::Output::kJson) {
    session.PrintJson(cluster.jobs);
    session.PrintJson(cluster.daemons);
    return absl::OkStatus();
  }
  constexpr FrameSize kPlain = {.columns = 80, .lines = std::numeric_limits<size_t>::max()};
  Print("%s", TopFrame(cluster.jobs, cluster.daemons, kPlain));
  return absl::OkStatus();
}

absl::Status ShowUntilInterrupted(Session& session) {
  // Before anything starts threads.
  absl::Notification stop;
  Interrupt interrupt;
  interrupt.Call([&stop] { stop.Notify(); });
  MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
  Cluster cluster;
  MUSTER_RETURN_IF_ERROR(Read(*jobs, cluster));
  Screen screen;
  std::string trouble;
  do {
    const FrameSize size = TerminalSize();
    // The last line stays free: a line break there would scroll the screen. So does the last
    // column: a terminal's cursor stays on it, and clearing the rest of the line would clear it.
    const FrameSize frame = {.columns = size.columns - 1, .lines = size.lines - 1};
    screen.Show(TopFrame(cluster.jobs, cluster.daemons, frame, trouble));
    if (stop.WaitForNotificationWithTimeout(kInterval)) break;
    const absl::Status read = Read(*jobs, cluster);
    trouble = read.ok() ? "" : std::string(read.message());
  } while (!stop.HasBeenNotified());
  return absl::OkStatus();
}

}  // namespace

void AddTop(CLI::App& app, Session& session) {
  auto* command =
      app.add_subcommand("top", "Show the cluster's jobs, slots and daemons, anew each second");
  auto once = std::make_shared<bool>(false);
  command->add_flag("--once", *once, "Print once, and end");
  command->footer(
      "Example: muster top\n"
      "Ends with Ctrl-C. If standard output is no terminal, or with --output json, it prints once: "
      "the jobs that have not ended and then the daemons, one JSON object each.");
  command->callback([&session, once] {
    const bool plain =
        *once || session.output == Session::Output::kJson || isatty(STDOUT_FILENO) == 0;
    session.Run([&] { return plain ? ShowOnce(session) : ShowUntilInterrupted(session); });
  });
}

}  // namespace muster
