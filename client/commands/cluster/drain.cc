#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/choices.h"
#include "client/commands/commands.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/text/printable.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

// Time between two looks at a drain that is waited for.
constexpr absl::Duration kPoll = absl::Milliseconds(500);

struct Request {
  v1::DrainServerRequest request;
  bool wait = false;
};

bool IsDrained(const v1::DrainStatus& drain) {
  return drain.partitions() == 0 && drain.waiting_for().empty();
}

// Returns when the daemon holds nothing any more. ABORTED: somebody ended the drain meanwhile.
absl::Status AwaitDrained(JobClient& jobs, v1::DrainStatus& drain) {
  const std::string id = drain.server_id();
  while (!IsDrained(drain)) {
    absl::SleepFor(kPoll);
    v1::GetClusterReply cluster;
    MUSTER_RETURN_IF_ERROR(jobs.Cluster(cluster));
    bool drains = false;
    for (v1::DrainStatus& each : *cluster.mutable_drains()) {
      if (each.server_id() != id) continue;
      drain = std::move(each);
      drains = true;
    }
    if (!drains) return absl::AbortedError(absl::StrCat("the drain of ", id, " was ended"));
  }
  return absl::OkStatus();
}

void PrintState(const std::string& daemon, const v1::DrainStatus& drain) {
  if (IsDrained(drain)) {
    Print("%s is drained: it holds no partitions and runs no tasks\n", daemon);
    return;
  }
  if (drain.partitions() > 0) {
    Print("%s still has %u partitions to move away; `muster cluster` shows how many are left\n",
          daemon, drain.partitions());
  } else {
    Print("%s gets no new tasks, and still runs some\n", daemon);
  }
  for (const std::string& reason : drain.waiting_for()) Print("  %s\n", PrintableLine(reason));
}

absl::Status Run(Session& session, const Request& given) {
  MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
  v1::DrainServerReply reply;
  MUSTER_RETURN_IF_ERROR(jobs->DrainServer(given.request, reply));
  if (given.wait) MUSTER_RETURN_IF_ERROR(AwaitDrained(*jobs, *reply.mutable_drain()));
  const std::string& daemon = given.request.server_id();
  if (session.output == Session::Output::kJson) {
    session.PrintJson(reply);
  } else if (given.request.undo()) {
    Print("%s may get partitions and tasks again; what has moved stays where it is\n", daemon);
  } else {
    PrintState(daemon, reply.drain());
  }
  return absl::OkStatus();
}

CLI::App* Add(CLI::App& app, Session& session, const std::shared_ptr<Request>& given,
              const std::string& name, const std::string& description) {
  auto* command = app.add_subcommand(name, description);
  command
      ->add_option("daemon", *given->request.mutable_server_id(),
                   "Id of the server or worker, as `muster cluster` lists it")
      ->required()
      ->type_name(kDaemonType);
  command->callback([&session, given] {
    if (given->wait) {
      session.CatchInterrupt("the drain goes on; `muster undrain` ends it");
    }
    session.Run([&] { return Run(session, *given); });
  });
  return command;
}

}  // namespace

void AddDrain(CLI::App& app, Session& session) {
  auto drain = std::make_shared<Request>();
  CLI::App* command =
      Add(app, session, drain, "drain",
          "Move all partitions off a server while their jobs go on, and give a server or worker "
          "nothing new");
  command->add_flag("--wait", drain->wait,
                    "Return once the server holds no partitions, or the tasks of the worker have "
                    "ended.");
  command->footer(
      "Example: muster drain server-1 --wait\n"
      "         muster drain worker-1");
  auto undrain = std::make_shared<Request>();
  undrain->request.set_undo(true);
  Add(app, session, undrain, "undrain",
      "Let a drained server or worker get partitions and tasks again")
      ->footer("Example: muster undrain server-1");
}

}  // namespace muster
