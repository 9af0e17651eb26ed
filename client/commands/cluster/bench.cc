#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cluster/session.h"
#include "client/cluster/spawn.h"
#include "client/commands/arguments/choices.h"
#include "client/commands/arguments/force_flag.h"
#include "client/commands/commands.h"
#include "common/base/status_macros.h"
#include "common/files/output_file.h"

namespace muster {

void AddBench(CLI::App& app, Session& session) {
  struct Arguments {
    std::string name;
    bool quick = false;
    std::string json;
    Replace replace = Replace::kNever;
    std::vector<std::string> own;
  };
  auto* command = app.add_subcommand(
      "bench", "Measure Muster's speed beside other systems and this machine's limits");
  auto arguments = std::make_shared<Arguments>();
  command->add_option("name", arguments->name, "What to measure")
      ->required()
      ->transform(OneOf({"parameter-server", "sparse", "store", "optimizers", "collectives",
                         "train", "coordinator"}));
  command->add_flag("--quick", arguments->quick, "Fewer and shorter runs, in under 45 s");
  command->add_option("--json", arguments->json, "Also write the results to this file");
  AddForceFlag(*command, arguments->replace);
  command->add_option("options", arguments->own,
                      "The benchmark's own options (see below), after --");
  command->footer(
      "Each benchmark's own options:\n"
      "  parameter-server  --way shared_memory|tcp|tls|grpc\n"
      "  sparse            --rows N\n"
      "  store             --only memory|disk|log|recovery\n"
      "  collectives       --no-peers leaves OpenMPI and Gloo out; --connections N is for TCP and "
      "TLS\n"
      "  train             --no-peers leaves PyTorch out; --cases gpt-10m,gpt2-124m,mlp,deep-fm\n"
      "  coordinator       --sizes 10,100,1000 are numbers of workers\n"
      "Example: muster bench collectives --quick --json all_reduce.json -- --no-peers");
  command->callback([&session, arguments] {
    session.Run([&]() -> absl::Status {
      MUSTER_RETURN_IF_ERROR(session.RefuseCertificates());
      if (!arguments->json.empty()) {
        MUSTER_RETURN_IF_ERROR(CheckOutputFile(arguments->json, arguments->replace));
      }
      const std::string binary =
          absl::StrCat(absl::StrReplaceAll(arguments->name, {{"-", "_"}}), "_bench");
      MUSTER_ASSIGN_OR_RETURN(const std::string program, FindProgram(binary));
      std::vector<std::string> words = {program};
      if (arguments->quick) words.push_back("--quick");
      if (!arguments->json.empty()) words.push_back("--json=" + arguments->json);
      // It knows which of these it has.
      words.insert(words.end(), arguments->own.begin(), arguments->own.end());
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      execv(program.c_str(), argv.data());
      return absl::InternalError(absl::StrCat("cannot run ", program, ": ", strerror(errno)));
    });
  });
}

}  // namespace muster
