#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "client/cluster/session.h"
#include "client/commands/arguments/choices.h"
#include "client/commands/commands.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/text/printable.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

absl::Status Run(Session& session, const v1::DrainServerRequest& request) {
  MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
  v1::DrainServerReply reply;
  MUSTER_RETURN_IF_ERROR(jobs->DrainServer(request, reply));
  if (session.output == Session::Output::kJson) {
    session.PrintJson(reply);
    return absl::OkStatus();
  }
  const char* server = request.server_id().c_str();
  if (request.undo()) {
    Print("%s may get partitions again; those that have moved stay where they are\n", server);
  } else if (reply.drain().partitions() == 0) {
    Print("%s is drained: it holds no partitions\n", server);
  } else {
    Print("%s still has %u partitions to move away; `muster cluster` shows how many are left\n",
          server, reply.drain().partitions());
    for (const std::string& reason : reply.drain().waiting_for()) {
      Print("  %s\n", PrintableLine(reason));
    }
  }
  return absl::OkStatus();
}

void Add(CLI::App& app, Session& session, const v1::DrainServerRequest& prototype,
         const std::string& name, const std::string& description) {
  auto* command = app.add_subcommand(name, description);
  auto request = std::make_shared<v1::DrainServerRequest>(prototype);
  auto server = std::make_shared<std::string>();
  command->add_option("server", *server, "Id of the server, as `muster cluster` lists it")
      ->required()
      ->type_name(kServerType);
  command->footer("Example: muster " + name + " server-1");
  command->callback([&session, request, server] {
    request->set_server_id(*server);
    session.Run([&] { return Run(session, *request); });
  });
}

}  // namespace

void AddDrain(CLI::App& app, Session& session) {
  v1::DrainServerRequest request;
  Add(app, session, request, "drain",
      "Move all partitions off a server while their jobs go on, and give it no new ones");
  request.set_undo(true);
  Add(app, session, request, "undrain", "Let a drained server get partitions again");
}

}  // namespace muster
