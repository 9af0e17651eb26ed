#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cluster/session.h"
#include "client/commands/commands.h"
#include "client/terminal/terminal.h"
#include "common/base/model_limits.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/local_storage.h"
#include "common/files/file_content.h"
#include "common/files/output_file.h"
#include "common/model_files/import_checkpoint.h"
#include "common/model_files/model_folder.h"
#include "common/model_files/padded_weights.h"
#include "common/model_files/transformer_config.h"
#include "common/model_files/upcycled_weights.h"
#include "common/tokenizer/files/open_tokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/tokenizer_identity.h"
#include "google/protobuf/text_format.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr char kJobFile[] = "job.textproto";
constexpr char kTokenizerFile[] = "tokenizer.json";
// They say how chats become text, and which tokens end a turn; they are copied as they are.
constexpr const char* kChatFiles[] = {"tokenizer_config.json", "chat_template.jinja",
                                      "generation_config.json"};

// A folder of weights that jobs may start from is never changed.
absl::Status CheckFolderIsFree(const fs::path& folder) {
  std::error_code error;
  for (const char* name : {kJobFile, kTokenizerFile, kChatFiles[0], kChatFiles[1], kChatFiles[2]}) {
    if (!fs::exists(fs::symlink_status(folder / name, error))) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        (folder / name).string(),
        " is there already, and import replaces no file; choose another folder with --out"));
  }
  return absl::OkStatus();
}

// A job that goes on training these weights: what to put in is in capitals.
std::string JobText(const v1::TransformerSpec& spec, const std::string& tokenizer) {
  v1::JobSpec job;
  job.set_name("fine-tune");
  *job.mutable_model()->mutable_transformer() = spec;
  v1::SequenceData& data = *job.mutable_data()->mutable_sequences();
  data.set_path("TEXT_FILE_OR_FOLDER");
  data.set_tokenizer(tokenizer);
  job.mutable_data()->set_holdout(0.1);
  job.mutable_optimizer()->set_name("adamw");
  job.mutable_optimizer()->set_learning_rate(1e-4f);
  job.mutable_clipping()->set_by_global_norm(1);
  job.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  job.mutable_update()->set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  job.mutable_update()->set_durability(v1::UpdateSpec::CHECKPOINT);
  job.set_workers(1);
  job.set_batch_size(8);
  job.mutable_stop()->set_epochs(1);
  job.set_seed(1);
  job.set_initial_weights("./");
  std::string text;
  google::protobuf::TextFormat::PrintToString(job, &text);
  return absl::StrCat("# Put your text in data.sequences.path, then `muster submit` this file.\n",
                      text);
}

struct ImportArguments {
  std::string folder;
  std::string out;
  uint32_t pad_vocabulary_to = 0;
  // 0: as the folder has them.
  uint32_t experts = 0;
  uint32_t top_k = 2;
};

absl::Status Import(const Session& session, const ImportArguments& arguments) {
  const auto& [folder, out, pad_vocabulary_to, experts, top_k] = arguments;
  if (experts > 0 && top_k > experts) {
    return absl::InvalidArgumentError(
        absl::StrCat("--top-k is ", top_k, ", but there are ", experts,
                     " experts (--experts); a token goes to at most all of them"));
  }
  MUSTER_RETURN_IF_ERROR(CheckFolderIsFree(out));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<const ModelFolder> model,
                          ModelFolder::Open(folder));
  const std::string absolute = fs::absolute(out).lexically_normal().string();
  std::error_code error;
  std::string tokenizer = "TOKENIZER";
  std::string tokenizer_json;
  std::optional<TokenizerIdentity> identity;
  if (fs::exists(fs::path(folder) / "tokenizer.json", error) ||
      fs::exists(fs::path(folder) / "tokenizer.model", error) ||
      fs::exists(fs::path(folder) / "vocab.json", error)) {
    const absl::StatusOr<std::unique_ptr<const Tokenizer>> opened = OpenTokenizer(folder);
    if (opened.ok()) {
      tokenizer_json = (*opened)->json();
      identity = {(*opened)->fingerprint(), absl::StrCat(absolute, "/", kTokenizerFile)};
      tokenizer = kTokenizerFile;
    } else if (absl::IsInvalidArgument(opened.status())) {
      // The weights are of use without it, to whoever has made tokens otherwise.
      PrintError("muster: the tokenizer is left out: %s\n", opened.status().message());
    } else {
      return opened.status();
    }
  }
  LocalStorage storage;
  std::unique_ptr<const UpcycledWeights> upcycled;
  if (experts > 0) {
    MUSTER_ASSIGN_OR_RETURN(upcycled, UpcycledWeights::Create(*model, experts, top_k));
  }
  const Weights& whole = upcycled != nullptr ? static_cast<const Weights&>(*upcycled) : *model;
  const PaddedWeights padded(whole, std::max(1u, pad_vocabulary_to));
  const Weights& weights = pad_vocabulary_to > 1 ? static_cast<const Weights&>(padded) : whole;
  MUSTER_RETURN_IF_ERROR(WriteImportedCheckpoint(storage, absolute, weights, identity));
  if (!tokenizer_json.empty()) {
    MUSTER_RETURN_IF_ERROR(WriteOutputFile((fs::path(out) / kTokenizerFile).string(),
                                           Replace::kNever, tokenizer_json));
    for (const char* name : kChatFiles) {
      if (!fs::exists(fs::path(folder) / name, error)) continue;
      MUSTER_ASSIGN_OR_RETURN(const FileContent file,
                              FileContent::Open((fs::path(folder) / name).string()));
      MUSTER_RETURN_IF_ERROR(
          WriteOutputFile((fs::path(out) / name).string(), Replace::kNever, file.bytes()));
    }
  }
  const fs::path job = fs::path(out) / kJobFile;
  MUSTER_RETURN_IF_ERROR(
      WriteOutputFile(job.string(), Replace::kNever, JobText(weights.spec(), tokenizer)));
  if (const std::string note = ConfigNote(weights.spec()); !note.empty()) {
    PrintError("muster: %s\n", note);
  }
  session.PrintResult(
      absl::StrCat(out, ": weights to start from, and ", job.string(),
                   ", a job that does; jobs of the same model take them by `submit --from ",
                   absolute, "`"),
      {{"folder", out}, {"job", job.string()}});
  return absl::OkStatus();
}

}  // namespace

void AddImport(CLI::App& app, Session& session) {
  auto arguments = std::make_shared<ImportArguments>();
  auto* command = app.add_subcommand(
      "import",
      "Import a GPT-2, Llama, Mistral, Qwen, Mixtral or OLMoE model from a Hugging Face folder");
  command->add_option("folder", arguments->folder, "Folder with config.json and model.safetensors")
      ->required();
  command
      ->add_option(
          "--out", arguments->out,
          "Folder to write: a checkpoint, a job file that trains it further, and the tokenizer "
          "with its chat template")
      ->required();
  command
      ->add_option(
          "--pad-vocabulary-to", arguments->pad_vocabulary_to,
          "Pad the vocabulary to a multiple of this many tokens, as a job's pad_vocabulary_to does")
      ->check(CLI::Range(uint64_t{1}, kMaxVocabularyMultiple));
  command
      ->add_option("--experts", arguments->experts,
                   "Make a dense model's feed-forward layers so many experts each, all copies; it "
                   "computes the same until they are trained")
      ->check(CLI::Range(uint64_t{2}, kMaxExperts));
  command->add_option("--top-k", arguments->top_k, "Experts that each token goes to")
      ->capture_default_str()
      ->check(CLI::Range(uint64_t{1}, kMaxExperts));
  command->footer("Example: muster import gpt2 --out gpt2-weights");
  command->callback(
      [&session, arguments] { session.Run([&] { return Import(session, *arguments); }); });
}

}  // namespace muster
