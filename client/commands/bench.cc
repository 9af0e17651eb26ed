#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/commands/commands.h"
#include "client/session.h"
#include "client/spawn.h"
#include "common/base/status_macros.h"

namespace muster {

void AddBench(CLI::App& app, Session& session) {
  struct Arguments {
    std::string name;
    bool quick = false;
    bool no_peers = false;
    uint64_t rows = 0;
    std::string json;
  };
  auto* command =
      app.add_subcommand("bench", "Measure Muster beside other systems and this machine's limits");
  auto arguments = std::make_shared<Arguments>();
  command
      ->add_option(
          "name", arguments->name,
          "What to measure: parameter-server, sparse, store, optimizers, collectives or train")
      ->required()
      ->check(CLI::IsMember(
          {"parameter-server", "sparse", "store", "optimizers", "collectives", "train"}));
  command->add_flag("--quick", arguments->quick, "Fewer and shorter runs, in under 45 s");
  command->add_flag("--no-peers", arguments->no_peers,
                    "Without OpenMPI and Gloo (collectives) and PyTorch (train)");
  command
      ->add_option("--rows", arguments->rows,
                   "Of sparse: rows of the table; 10,000,000 (with --quick 1,000,000) if left out")
      ->check(CLI::PositiveNumber);
  command->add_option("--json", arguments->json, "Also write the records to this file");
  command->footer("Example: muster bench collectives --quick --json all_reduce.json");
  command->callback([&session, arguments] {
    session.Run([&]() -> absl::Status {
      MUSTER_RETURN_IF_ERROR(session.RefuseCertificates());
      if (arguments->no_peers && arguments->name != "collectives" && arguments->name != "train") {
        return absl::InvalidArgumentError(
            absl::StrCat("--no-peers is of `bench collectives` and `bench train`; ",
                         arguments->name, " has no peers"));
      }
      if (arguments->rows > 0 && arguments->name != "sparse") {
        return absl::InvalidArgumentError(
            absl::StrCat("--rows is of `bench sparse`; ", arguments->name, " has none"));
      }
      const std::string binary =
          absl::StrCat(absl::StrReplaceAll(arguments->name, {{"-", "_"}}), "_bench");
      MUSTER_ASSIGN_OR_RETURN(const std::string program, FindProgram(binary));
      std::vector<std::string> words = {program};
      if (arguments->quick) words.push_back("--quick");
      if (arguments->no_peers) words.push_back("--no-peers");
      if (arguments->rows > 0) words.push_back(absl::StrCat("--rows=", arguments->rows));
      if (!arguments->json.empty()) words.push_back("--json=" + arguments->json);
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      execv(program.c_str(), argv.data());
      return absl::InternalError(absl::StrCat("cannot run ", program, ": ", strerror(errno)));
    });
  });
}

}  // namespace muster
