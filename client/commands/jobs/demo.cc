#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cluster/session.h"
#include "client/commands/commands.h"
#include "client/commands/jobs/comparison_output.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Every Debian machine has this text.
constexpr char kLicences[] = "/usr/share/common-licenses";

v1::JobSpec DemoJob(const std::string& data) {
  v1::JobSpec job;
  job.set_name("n-gram language model");
  auto& ngram = *job.mutable_model()->mutable_ngram();
  ngram.set_orders(5);
  ngram.set_embedding_dim(16);
  ngram.set_hidden(128);
  job.mutable_data()->mutable_text()->set_path(data);
  job.mutable_data()->set_holdout(0.1);
  job.mutable_optimizer()->set_name("adagrad");
  job.mutable_optimizer()->set_learning_rate(0.1);
  job.set_workers(2);
  job.set_batch_size(1024);
  // Short, so that each road is taken several times within some 20 seconds.
  job.mutable_stop()->set_steps(250);
  job.mutable_evaluation()->set_every_steps(125);
  job.set_seed(1);
  return job;
}

struct DemoArguments {
  std::string data = kLicences;
  bool quick = false;
};

absl::Status RunDemo(const Session& session, const DemoArguments& arguments) {
  MUSTER_RETURN_IF_ERROR(session.RefuseCertificates());
  const std::string data = std::filesystem::absolute(arguments.data).string();
  std::error_code error;
  if (!std::filesystem::exists(data, error)) {
    return absl::NotFoundError(
        absl::StrCat("there is no ", data, "; name a file or folder with --data"));
  }
  ComparisonOptions options;
  if (arguments.quick) {
    options.repeats = 1;
    options.only_road = Road::Kind::kBsp;
  }
  if (session.output == Session::Output::kText) {
    Print("Training an n-gram language model on %s\n", data);
    if (arguments.quick) {
      Print(
          "once, on a coordinator, 2 parameter servers and 2 workers started for it\n"
          "on this machine.\n");
    } else {
      Print(
          "four ways, %d times each in alternating order. Each time a coordinator,\n"
          "2 parameter servers (none for all-reduce) and 2 workers start on this machine.\n",
          options.repeats);
    }
  }
  return CompareAndPrint(session, DemoJob(data), options).status();
}

}  // namespace

void AddDemo(CLI::App& app, Session& session) {
  auto* command =
      app.add_subcommand("demo",
                         "Train a language model four ways (parameter servers with BSP, SSP and "
                         "ASP; all-reduce) on temporary clusters, and compare them");
  auto arguments = std::make_shared<DemoArguments>();
  command->add_option("--data", arguments->data, "File or folder of text to train on")
      ->capture_default_str();
  command->add_flag("--quick", arguments->quick,
                    "Train once, on parameter servers with BSP; takes seconds");
  command->footer("Example: muster demo --data /usr/share/common-licenses");
  command->callback(
      [&session, arguments] { session.Run([&] { return RunDemo(session, *arguments); }); });
}

}  // namespace muster
