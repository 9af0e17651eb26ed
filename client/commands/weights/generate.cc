#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cluster/session.h"
#include "client/cluster/spawn.h"
#include "client/cluster/unnamed_file.h"
#include "client/commands/arguments/choices.h"
#include "client/commands/arguments/job_argument.h"
#include "client/commands/commands.h"
#include "client/job/transformer_job.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_name.h"
#include "common/job_data/job_tokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

struct GenerateArguments {
  std::string model;
  std::string prompt;
  std::string tokenizer;
  int64_t max_tokens = 256;
  double temperature = 0.8;
  int64_t top_k = 0;
  double top_p = 1;
  uint64_t seed = 0;
  int threads = 0;
};

// Returns the job's weights in a file for muster-generate.
absl::StatusOr<std::unique_ptr<UnnamedFile>> ExportModel(JobClient& jobs,
                                                         const CheckpointName& checkpoint,
                                                         const std::string& tokenizer) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<UnnamedFile> file, UnnamedFile::Create("the weights"));
  // The tokenizer is known to be usable, so there is nothing to note.
  const auto note = [](const std::string&) {};
  MUSTER_RETURN_IF_ERROR(ExportJob(jobs, RequestFor(checkpoint), tokenizer, note,
                                   [&file](absl::string_view data) { return file->Write(data); }));
  return file;
}

struct FoundModel {
  // The path under which muster-generate finds the model.
  std::string path;
  // Null unless that is a job's.
  std::unique_ptr<UnnamedFile> exported;
};

absl::StatusOr<FoundModel> FindModel(Session& session, const GenerateArguments& arguments) {
  std::error_code error;
  if (std::filesystem::exists(arguments.model, error)) return FoundModel{arguments.model, nullptr};
  if (arguments.model.find('/') != std::string::npos) {
    return absl::NotFoundError(
        absl::StrCat("there is no file or folder ", arguments.model,
                     "; name a job, a file of `muster export`, or a folder with config.json and "
                     "model.safetensors"));
  }
  MUSTER_RETURN_IF_ERROR(ParseCheckpointName(arguments.model).status());
  MUSTER_ASSIGN_OR_RETURN(JobClient * jobs, session.Jobs());
  MUSTER_ASSIGN_OR_RETURN(const CheckpointName checkpoint,
                          FindCheckpoint(*jobs, arguments.model, JobClient::Naming::kNewest));
  const std::string& job_id = checkpoint.job_id;
  v1::JobStatus job;
  MUSTER_RETURN_IF_ERROR(jobs->Get(job_id, job));
  MUSTER_RETURN_IF_ERROR(RequireTransformer(job.spec(), job_id, "`muster generate`"));
  // Seen here, as the program that reads the copy knows neither the job nor where its data was.
  if (arguments.tokenizer.empty()) {
    if (const absl::Status known = JobTokenizer(job.spec().data()).status(); !known.ok()) {
      return absl::Status(
          known.code(),
          absl::StrCat("job ", job_id, " took its tokens from a file that is not on this machine: ",
                       known.message(),
                       "; name its tokenizer with --tokenizer (bytes, a "
                       "tokenizer.json or tokenizer.model, or a folder with one, or with "
                       "vocab.json and merges.txt)"));
    }
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<UnnamedFile> exported,
                          ExportModel(*jobs, checkpoint, arguments.tokenizer));
  const std::string path = exported->path();
  return FoundModel{path, std::move(exported)};
}

absl::Status Generate(Session& session, const GenerateArguments& arguments) {
  MUSTER_ASSIGN_OR_RETURN(const std::string program, FindProgram("muster-generate"));
  MUSTER_ASSIGN_OR_RETURN(const FoundModel model, FindModel(session, arguments));
  std::vector<std::string> words = {program,
                                    absl::StrCat("--max-tokens=", arguments.max_tokens),
                                    absl::StrCat("--temperature=", arguments.temperature),
                                    absl::StrCat("--top-k=", arguments.top_k),
                                    absl::StrCat("--top-p=", arguments.top_p),
                                    absl::StrCat("--seed=", arguments.seed),
                                    absl::StrCat("--threads=", arguments.threads)};
  // An empty value would take the next word's place.
  if (!arguments.prompt.empty()) words.push_back("--prompt=" + arguments.prompt);
  if (!arguments.tokenizer.empty()) words.push_back("--tokenizer=" + arguments.tokenizer);
  if (session.output == Session::Output::kJson) words.push_back("--json");
  words.push_back("--");
  words.push_back(model.path);
  return Exec(std::move(words));
}

}  // namespace

void AddGenerate(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<GenerateArguments>();
  auto* command = app.add_subcommand("generate", "Continue a prompt with a trained transformer");
  command
      ->add_option("model", arguments->model,
                   "A job (JOB@CLOCK or JOB@best: one of its checkpoints), a file of `muster "
                   "export`, or a folder with config.json and model.safetensors")
      ->required()
      ->type_name(kCheckpointType);
  command->add_option("--prompt", arguments->prompt, "Text to continue; the output begins with it")
      ->required();
  command->add_option("--max-tokens", arguments->max_tokens, "Most tokens to add")
      ->capture_default_str();
  command
      ->add_option("--temperature", arguments->temperature,
                   "Below 1 likely tokens become likelier; 0 always takes the likeliest")
      ->capture_default_str();
  command
      ->add_option("--top-k", arguments->top_k,
                   "Choose among this many likeliest tokens; 0: among all")
      ->capture_default_str();
  command
      ->add_option("--top-p", arguments->top_p,
                   "Choose among the fewest likeliest tokens whose probabilities add up to this")
      ->capture_default_str();
  command
      ->add_option("--seed", arguments->seed,
                   "Seed of the choices; the same seed gives the same text")
      ->capture_default_str();
  command->add_option("--tokenizer", arguments->tokenizer,
                      "The model's tokenizer, if the model does not say where it is");
  command->add_option("--threads", arguments->threads, "Threads to compute with; 0: one per core")
      ->capture_default_str();
  command->footer(
      "Example: muster generate JOB --prompt \"ROMEO:\" --max-tokens 200 --seed 1\n"
      "Prints the text while it is made. --output json prints one object at the end:\n"
      "prompt, text (what follows the prompt), tokens and seed.");
  command->callback(
      [&session, arguments] { session.Run([&] { return Generate(session, *arguments); }); });
}

}  // namespace muster
