#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/cluster/session.h"
#include "client/cluster/spawn.h"
#include "client/commands/arguments/choices.h"
#include "client/commands/arguments/force_flag.h"
#include "client/commands/arguments/job_argument.h"
#include "client/commands/commands.h"
#include "client/job/transformer_job.h"
#include "client/terminal/terminal.h"
#include "common/base/status_macros.h"
#include "common/chat_template/ends_of_turns.h"
#include "common/chat_template/model_chat_template.h"
#include "common/checkpoint/checkpoint_name.h"
#include "common/files/output_file.h"
#include "common/model_files/adapter_folder.h"
#include "common/model_files/merged_weights.h"
#include "common/model_files/model_file.h"
#include "common/model_files/write_model_folder.h"
#include "common/tensor/dtype.h"
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
  // Adapters are added to the weights that they lie beside.
  bool merge = false;
  bool averaged = false;
  Replace replace = Replace::kNever;
  // These are for kHuggingFace alone.
  std::string type = "f32";
  uint64_t file_bytes = 5'000'000'000;
  std::string chat_template;
  bool no_check = false;
};

DType TypeOf(const std::string& name) {
  return name == "bf16" ? DType::kBf16 : name == "f16" ? DType::kF16 : DType::kF32;
}

// Writes the job's weights to the file; their bytes.
absl::StatusOr<uint64_t> WriteWeights(JobClient& jobs, const CheckpointName& checkpoint,
                                      OutputFile& file, const ExportArguments& arguments) {
  uint64_t bytes = 0;
  v1::CheckpointRequest request = RequestFor(checkpoint);
  request.set_averaged(arguments.averaged);
  const auto note = [](const std::string& text) { PrintError("muster: exported %s\n", text); };
  MUSTER_RETURN_IF_ERROR(
      ExportJob(jobs, request, arguments.tokenizer, note, [&](absl::string_view data) {
        bytes += data.size();
        return file.Write(data);
      }));
  return bytes;
}

absl::Status ExportFile(const Session& session, JobClient& jobs, const CheckpointName& checkpoint,
                        const ExportArguments& arguments) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file,
                          OutputFile::Create(arguments.out, arguments.replace));
  MUSTER_ASSIGN_OR_RETURN(const uint64_t bytes, WriteWeights(jobs, checkpoint, *file, arguments));
  MUSTER_RETURN_IF_ERROR(file->Publish());
  session.PrintResult(
      absl::StrCat(arguments.out, ": ", FormatBytes(static_cast<double>(bytes))),
      {{"job_id", checkpoint.job_id}, {"file", arguments.out}, {"bytes", absl::StrCat(bytes)}});
  return absl::OkStatus();
}

// Says what the tokenizer's tokens are called.
void NameTokens(const Tokenizer& tokenizer, ModelFolderContents& contents) {
  contents.end_of_text = tokenizer.end_of_text();
  if (!tokenizer.before_document().empty()) {
    contents.begin_of_text = tokenizer.before_document().front();
    contents.begin_of_text_name = std::string(tokenizer.BytesOf(*contents.begin_of_text));
  }
  if (contents.end_of_text.has_value()) {
    contents.end_of_text_name = std::string(tokenizer.BytesOf(*contents.end_of_text));
  }
}

// Adds the chat template of the folder that --chat-template names, or the job; a job need not have
// one.
absl::Status AddChatTemplate(const ExportArguments& arguments, const v1::DataSpec& data,
                             const Tokenizer& tokenizer, ModelFolderContents& contents) {
  const bool named = !arguments.chat_template.empty();
  const std::string folder = named ? arguments.chat_template : ChatFolderOf(data);
  if (folder.empty()) return absl::OkStatus();
  const absl::StatusOr<ModelChatTemplate> opened = ModelChatTemplate::Open(folder);
  if (!opened.ok()) return named ? opened.status() : absl::OkStatus();
  contents.chat_template = opened->text();
  for (const auto& [name, text] : opened->tokens().items()) {
    contents.special_tokens[name] = text.get<std::string>();
  }
  MUSTER_ASSIGN_OR_RETURN(contents.ends_of_turns, EndsOfTurns(folder, *opened, tokenizer));
  return absl::OkStatus();
}

// Has the folder read again, and compared with the weights that it was made of.
absl::Status CheckFolder(const ExportArguments& arguments, const OutputFile& weights) {
  MUSTER_ASSIGN_OR_RETURN(const std::string program, FindProgram("muster-generate"));
  // The other program finds this one's open file by this one's number.
  const std::string path = absl::StrReplaceAll(
      weights.partial(), {{"/proc/self/", absl::StrCat("/proc/", getpid(), "/")}});
  MUSTER_ASSIGN_OR_RETURN(
      const ProgramEnd end,
      RunProgram({program, "--compare=" + path, "--type=" + arguments.type, "--", arguments.out}));
  if (end.exit_code == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      arguments.out, " was written, but read again it is not the job's model, so do not use it: ",
      absl::StripTrailingAsciiWhitespace(end.output)));
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
  const bool adapters_alone = job.spec().has_adapter() && !arguments.merge;
  if (arguments.merge && !job.spec().has_adapter()) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", job_id,
                     " has no adapters, so there is nothing to --merge: leave it "
                     "out"));
  }
  MUSTER_RETURN_IF_ERROR(adapters_alone ? CheckAdapterFolder(arguments.out, arguments.replace)
                                        : CheckModelFolder(arguments.out, arguments.replace));
  std::string beside = arguments.out;
  while (beside.size() > 1 && beside.back() == '/') beside.pop_back();
  // A temporary file, from which the folder is made.
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> file,
                          OutputFile::Create(beside + ".weights", Replace::kFiles));
  MUSTER_RETURN_IF_ERROR(WriteWeights(jobs, checkpoint, *file, arguments).status());
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<const ModelFile> model,
                          ModelFile::Open(file->partial()));
  if (adapters_alone) {
    MUSTER_RETURN_IF_ERROR(WriteAdapterFolder(arguments.out, *model, job.spec().adapter(),
                                              TypeOf(arguments.type), arguments.replace));
    session.PrintResult(
        absl::StrCat(arguments.out, ": adapter_config.json, adapter_model.safetensors in ",
                     arguments.type),
        {{"job_id", job_id}, {"folder", arguments.out}});
    return absl::OkStatus();
  }
  const MergedWeights merged(*model, job.spec().adapter());
  ModelFolderContents contents{merged};
  contents.type = TypeOf(arguments.type);
  contents.file_bytes = arguments.file_bytes;
  if (const std::optional<std::string>& json = model->tokenizer_json(); json.has_value()) {
    // Readers of such folders know bytes as a vocabulary without merges.
    contents.tokenizer_json = json->empty() ? WriteBpeJson(BytesAsVocabulary()) : *json;
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<const Tokenizer> tokenizer,
                            ParseTokenizer(*json, file->partial()));
    NameTokens(*tokenizer, contents);
    MUSTER_RETURN_IF_ERROR(AddChatTemplate(arguments, job.spec().data(), *tokenizer, contents));
  }
  MUSTER_RETURN_IF_ERROR(WriteModelFolder(arguments.out, contents, arguments.replace));
  if (!arguments.no_check) MUSTER_RETURN_IF_ERROR(CheckFolder(arguments, *file));
  session.PrintResult(
      absl::StrCat(arguments.out, ": config.json, generation_config.json, weights in ",
                   arguments.type,
                   contents.tokenizer_json.empty() ? "" : ", tokenizer.json, tokenizer_config.json",
                   contents.chat_template.empty() ? "" : " with the chat template",
                   arguments.no_check ? "" : "; read again, it gives the job's logits and tokens"),
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
  if (arguments.merge && format != kHuggingFace) {
    return absl::InvalidArgumentError(
        "--merge is for --format huggingface: a safetensors file has the adapters beside the "
        "weights, as `muster generate` reads them");
  }
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
  command->add_flag("--merge", arguments->merge,
                    "With --format huggingface, of a job with adapters: write the whole model with "
                    "the adapters added to its weights, instead of the adapters alone in PEFT's "
                    "layout");
  AddAveragedFlag(*command, arguments->averaged);
  command->add_option("--tokenizer", arguments->tokenizer,
                      "Tokenizer of a transformer, if it is not where the job says");
  command
      ->add_option("--type", arguments->type,
                   "With --format huggingface: type of the weights, f32, bf16 or f16; they are "
                   "rounded to the nearest")
      ->capture_default_str()
      ->transform(OneOf({"f32", "bf16", "f16"}));
  command
      ->add_option("--file-size", arguments->file_bytes,
                   "With --format huggingface: weights of more bytes than this are divided among "
                   "several files, such as 2GB. Default: 5GB")
      ->transform(CLI::AsSizeValue(true));
  command->add_option("--chat-template", arguments->chat_template,
                      "With --format huggingface: folder of the model whose chat template is "
                      "written, if it is not where the job's data say");
  command->add_flag("--no-check", arguments->no_check,
                    "With --format huggingface: does not read the folder again to compare its "
                    "logits and tokens with the job's");
  command->footer(
      "Example: muster export JOB --out weights.safetensors\n"
      "         muster export JOB@best --format huggingface --type bf16 --out folder");
}

}  // namespace muster
