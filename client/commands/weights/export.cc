#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cluster/session.h"
#include "client/commands/arguments/choices.h"
#include "client/commands/arguments/force_flag.h"
#include "client/commands/arguments/job_argument.h"
#include "client/commands/commands.h"
#include "client/job/transformer_job.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_name.h"
#include "common/files/output_file.h"
#include "common/model_files/model_file.h"
#include "common/model_files/model_folder.h"
#include "common/text/format_bytes.h"
#include "common/tokenizer/bpe/bpe_json.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/files/parse_tokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

constexpr char kSafetensors[] = "safetensors";
constexpr char kHuggingFace[] = "huggingface";

struct ExportArguments {
  std::string out;
  // Empty: as `out` ends.
  std::string format;
  std::string tokenizer;
  Replace replace = Replace::kNever;
};

// Writes the job's weights to the file; their bytes.
absl::StatusOr<uint64_t> WriteWeights(JobClient& jobs, const CheckpointName& checkpoint,
                                      OutputFile& file, const std::string& tokenizer) {
  uint64_t bytes = 0;
  const auto note = [](const std::string& text) { PrintError("muster: exported %s\n", text); };
  MUSTER_RETURN_IF_ERROR(
      ExportJob(jobs, RequestFor(checkpoint), tokenizer, note, [&](absl::string_view data) {
        bytes += data.size();
        return file.Write(data);
      }));
  return bytes;
}

absl::Status ExportFile(const Session& session, JobClient& jobs, const CheckpointName& checkpoint,
                        const ExportArguments& arguments) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file,
                          OutputFile::Create(arguments.out, arguments.replace));
  MUSTER_ASSIGN_OR_RETURN(const uint64_t bytes,
                          WriteWeights(jobs, checkpoint, *file, arguments.tokenizer));
  MUSTER_RETURN_IF_ERROR(file->Publish());
  session.PrintResult(
      absl::StrCat(arguments.out, ": ", FormatBytes(static_cast<double>(bytes))),
      {{"job_id", checkpoint.job_id}, {"file", arguments.out}, {"bytes", absl::StrCat(bytes)}});
  return absl::OkStatus();
}

absl::Status ExportFolder(const Session& session, JobClient& jobs, const CheckpointName& checkpoint,
                          const ExportArguments& arguments) {
  const std::string& job_id = checkpoint.job_id;
  v1::JobStatus job;
  MUSTER_RETURN_IF_ERROR(jobs.Get(job_id, job));
  MUSTER_RETURN_IF_ERROR(RequireTransformer(job.spec(), job_id, "--format huggingface"));
  // Before anything is copied; the vocabulary makes no difference to that.
  v1::TransformerSpec spec = job.spec().model().transformer();
  FillTransformerDefaults(1, spec);
  MUSTER_RETURN_IF_ERROR(FamilyOf(spec).status());
  MUSTER_RETURN_IF_ERROR(CheckModelFolder(arguments.out, arguments.replace));
  std::string beside = arguments.out;
  while (beside.size() > 1 && beside.back() == '/') beside.pop_back();
  // A temporary file, from which the folder is made.
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file,
                          OutputFile::Create(beside + ".weights", Replace::kFiles));
  MUSTER_RETURN_IF_ERROR(WriteWeights(jobs, checkpoint, *file, arguments.tokenizer).status());
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<const ModelFile> model,
                          ModelFile::Open(file->partial()));
  ModelFolderContents contents{*model};
  if (const std::optional<std::string>& json = model->tokenizer_json(); json.has_value()) {
    // Readers of such folders know bytes as a vocabulary without merges.
    contents.tokenizer_json = json->empty() ? WriteBpeJson(BytesAsVocabulary()) : *json;
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<const Tokenizer> tokenizer,
                            ParseTokenizer(*json, file->partial()));
    contents.end_of_text = tokenizer->end_of_text();
    if (!tokenizer->before_document().empty()) {
      contents.begin_of_text_name =
          std::string(tokenizer->BytesOf(tokenizer->before_document().front()));
    }
    if (contents.end_of_text.has_value()) {
      contents.end_of_text_name = std::string(tokenizer->BytesOf(*contents.end_of_text));
    }
  }
  MUSTER_RETURN_IF_ERROR(WriteModelFolder(arguments.out, contents, arguments.replace));
  session.PrintResult(
      absl::StrCat(
          arguments.out, ": config.json, model.safetensors",
          contents.tokenizer_json.empty() ? "" : ", tokenizer.json, tokenizer_config.json"),
      {{"job_id", job_id}, {"folder", arguments.out}});
  return absl::OkStatus();
}

// Without --format the file's ending says it.
absl::StatusOr<std::string> FormatOf(const ExportArguments& arguments) {
  if (!arguments.format.empty()) return arguments.format;
  const std::string ending = std::filesystem::path(arguments.out).extension().string();
  if (ending.empty() || absl::EqualsIgnoreCase(ending, ".safetensors")) return kSafetensors;
  return absl::InvalidArgumentError(absl::StrCat(
      "--out is ", arguments.out, ", but export writes no ", ending,
      " files: name a file .safetensors, which PyTorch, JAX and others read, or for a transformer "
      "a "
      "folder with --format huggingface. --format safetensors writes it whatever the name"));
}

absl::Status Export(const Session& session, JobClient& jobs, const CheckpointName& checkpoint,
                    const ExportArguments& arguments) {
  MUSTER_ASSIGN_OR_RETURN(const std::string format, FormatOf(arguments));
  return format == kHuggingFace ? ExportFolder(session, jobs, checkpoint, arguments)
                                : ExportFile(session, jobs, checkpoint, arguments);
}

}  // namespace

void AddExport(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ExportArguments>();
  auto* command = AddCheckpointCommand(
      app, session, "export", "Write the weights of a job's checkpoint as safetensors",
      kCheckpointArgument,
      [arguments](Session& session, JobClient& jobs, const CheckpointName& checkpoint) {
        return Export(session, jobs, checkpoint, *arguments);
      });
  command
      ->add_option("--out", arguments->out,
                   "File to write, such as weights.safetensors; with --format huggingface a folder")
      ->required();
  AddForceFlag(*command, arguments->replace);
  command
      ->add_option("--format", arguments->format,
                   "safetensors: one file with Muster's tensor names. huggingface: config.json, "
                   "model.safetensors and the tokenizer's files; only for transformers shaped like "
                   "GPT-2, Llama, Mistral, Qwen 2 or 3, or one of these with experts (Mixtral, "
                   "Qwen2-MoE, Qwen3-MoE, OLMoE). Default: safetensors")
      ->transform(OneOf({kSafetensors, kHuggingFace}));
  command->add_option("--tokenizer", arguments->tokenizer,
                      "Tokenizer of a transformer, if it is not where the job says");
  command->footer(
      "Example: muster export JOB --out weights.safetensors\n"
      "         muster export JOB@best --format huggingface --out folder");
}

}  // namespace muster
