#include "common/base/version.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "client/cluster/session.h"
#include "client/commands/commands.h"
#include "client/terminal/terminal.h"
#include "common/text/dump_json.h"

namespace muster {

void AddVersion(CLI::App& app, Session& session) {
  auto* command = app.add_subcommand("version", "Print release, commit and build");
  command->footer("Example: muster version");
  command->callback([&session] {
    session.Run([&]() -> absl::Status {
      if (session.output == Session::Output::kJson) {
        const nlohmann::ordered_json json = {
            {"release", kRelease}, {"commit", Commit()}, {"build", BuildType()}};
        PrintJsonText(DumpJson(json, 1));
      } else {
        Print("%s\n", VersionLine("muster"));
      }
      return absl::OkStatus();
    });
  });
}

}  // namespace muster
