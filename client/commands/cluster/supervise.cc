#include <CLI/CLI.hpp>
#include <memory>

#include "client/cluster/session.h"
#include "client/cluster/supervisor.h"
#include "client/commands/commands.h"

namespace muster {

// `up` starts this command. It is not for users, so the help leaves it out.
void AddSupervise(CLI::App& app, Session& session) {
  auto* command = app.add_subcommand("supervise", "")->group("");
  auto options = std::make_shared<Supervisor::Options>();
  command->add_option("--servers", options->servers);
  command->add_option("--workers", options->workers);
  command->add_option("--slots", options->slots_per_worker);
  command->add_option("--port", options->port);
  command->add_option("--page-port", options->page_port);
  command->add_option("--owner", options->owner);
  command->add_option("--worker-flag", options->worker_flags);
  command->add_option("--daemon-flag", options->daemon_flags);
  command->add_flag("--allow-programs", options->allow_programs);
  command->callback([&session, options] {
    options->data_dir = session.data_dir;
    options->tls = session.tls;
    session.Run([&] { return Supervisor(*options).Run(); });
  });
}

}  // namespace muster
