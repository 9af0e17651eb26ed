// `muster generate` runs this: continues a prompt by a trained transformer.
//
//   muster-generate MODEL --prompt TEXT [--max-tokens N] [--temperature T] [--top-k K] [--top-p P]
//       [--seed S] [--tokenizer NAME] [--threads N] [--json]
//   muster-generate MODEL --chat [--chat-template FOLDER] [--system TEXT] [--prompt TEXT] ...
//   muster-generate MODEL --compare FILE [--type TYPE]
//
// MODEL is a file of `muster export`, or a folder as Hugging Face lays it out. Text goes to
// standard output token by token, the prompt first; with --json at the end, as one object. With
// --chat, answers go there; without --prompt, each line of standard input is a message. With
// --compare nothing goes there: MODEL says what FILE does, in that type, or the exit code tells.
// Errors go to standard error (common/daemon/report_failure.h). Exit codes are `muster`'s.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "common/base/machine/usable_resources.h"
#include "common/base/status_macros.h"
#include "common/daemon/parse_flags.h"
#include "common/daemon/report_failure.h"
#include "common/kernels/matmul.h"
#include "common/model_files/merged_weights.h"
#include "common/model_files/model_file.h"
#include "common/model_files/model_folder.h"
#include "common/model_files/weights.h"
#include "common/tensor/dtype.h"
#include "common/text/dump_json.h"
#include "common/text/printable.h"
#include "common/tokenizer/files/open_tokenizer.h"
#include "common/tokenizer/files/parse_tokenizer.h"
#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/tokenizer_identity.h"
#include "proto/job.pb.h"
#include "worker/generate/chat.h"
#include "worker/generate/compare_models.h"
#include "worker/generate/generator.h"
#include "worker/generate/loaded_transformer.h"
#include "worker/models/resolve_transformer.h"

namespace muster {
namespace {

struct Flags {
  std::string model;
  std::string prompt;
  std::string tokenizer;
  GenerateOptions options;
  int threads = 0;
  bool json = false;
  bool chat = false;
  std::string chat_template;
  std::string system;
  // Empty: generates.
  std::string compare;
  std::string type = "f32";
};

struct OpenModel {
  std::unique_ptr<const Weights> weights;
  AdapterShape adapter;
  std::unique_ptr<const Tokenizer> tokenizer;
};

absl::Status NoTokenizer(const std::string& model,
                         const std::optional<TokenizerIdentity>& learned) {
  return absl::InvalidArgumentError(absl::StrCat(
      model,
      learned.has_value()
          ? absl::StrCat(" learned from tokens of ", learned->name, ", but does not hold those")
          : " does not say how its tokens are made",
      "; name its tokenizer with --tokenizer (bytes, a tokenizer.json, a token file, or a folder "
      "with vocab.json and merges.txt)"));
}

// The tokenizer that --tokenizer names, if it is the one that the model learned from, or nothing is
// known of that.
absl::StatusOr<std::unique_ptr<const Tokenizer>> OpenNamed(
    const Flags& flags, const std::optional<TokenizerIdentity>& learned) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const Tokenizer> tokenizer,
                          OpenTokenizer(flags.tokenizer));
  if (learned.has_value()) {
    MUSTER_RETURN_IF_ERROR(CheckSameTokenizer(absl::StrCat("the model ", flags.model), *learned,
                                              {tokenizer->fingerprint(), flags.tokenizer}));
  }
  return tokenizer;
}

absl::StatusOr<OpenModel> OpenModelFolder(const Flags& flags) {
  namespace fs = std::filesystem;
  OpenModel model;
  MUSTER_ASSIGN_OR_RETURN(model.weights, ModelFolder::Open(flags.model));
  const fs::path folder = flags.model;
  std::error_code error;
  const bool has_tokenizer =
      fs::exists(folder / "tokenizer.json", error) || fs::exists(folder / "vocab.json", error);
  if (flags.tokenizer.empty()) {
    if (!has_tokenizer) return NoTokenizer(flags.model, std::nullopt);
    MUSTER_ASSIGN_OR_RETURN(model.tokenizer, OpenTokenizer(flags.model));
    return model;
  }
  std::optional<TokenizerIdentity> learned;
  // One of a kind that is not understood cannot be compared.
  if (const auto own = OpenTokenizer(flags.model); has_tokenizer && own.ok()) {
    learned = {(*own)->fingerprint(), flags.model};
  }
  MUSTER_ASSIGN_OR_RETURN(model.tokenizer, OpenNamed(flags, learned));
  return model;
}

absl::StatusOr<OpenModel> OpenModelFile(const Flags& flags) {
  OpenModel model;
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const ModelFile> file, ModelFile::Open(flags.model));
  std::unique_ptr<const Tokenizer> own;
  if (file->tokenizer_json().has_value()) {
    MUSTER_ASSIGN_OR_RETURN(own, ParseTokenizer(*file->tokenizer_json(), flags.model));
  }
  std::optional<TokenizerIdentity> learned = file->tokenizer();
  if (!learned.has_value() && own != nullptr) learned = {own->fingerprint(), flags.model};
  if (!flags.tokenizer.empty()) {
    MUSTER_ASSIGN_OR_RETURN(model.tokenizer, OpenNamed(flags, learned));
  } else if (own != nullptr) {
    model.tokenizer = std::move(own);
  } else {
    return NoTokenizer(flags.model, learned);
  }
  if (file->adapter() != nullptr) model.adapter = ResolveAdapter(*file->adapter());
  model.weights = std::move(file);
  return model;
}

// Writes all at once, so that a reader at the other end of a pipe sees each token when it comes.
absl::Status Print(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return absl::ErrnoToStatus(errno, "writing the text");
    text.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<OpenModel> OpenAny(const Flags& flags) {
  std::error_code error;
  MUSTER_ASSIGN_OR_RETURN(OpenModel model, std::filesystem::is_directory(flags.model, error)
                                               ? OpenModelFolder(flags)
                                               : OpenModelFile(flags));
  const int64_t rows = model.weights->spec().vocabulary();
  if (model.tokenizer->vocabulary() > rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tokenizer has ", model.tokenizer->vocabulary(), " tokens, but the model ",
                     "only ", rows, "; it is not the one that the model was trained with"));
  }
  return model;
}

using Sink = absl::FunctionRef<absl::Status(absl::string_view)>;

// Makes text after a message of a chat or after a prompt, as `make` does, and prints it as one
// object.
absl::Status PrintObject(const Flags& flags,
                         absl::FunctionRef<absl::StatusOr<int64_t>(Sink sink)> make) {
  std::string text;
  MUSTER_ASSIGN_OR_RETURN(const int64_t made, make([&text](absl::string_view bytes) {
                            text.append(bytes.data(), bytes.size());
                            return absl::OkStatus();
                          }));
  nlohmann::ordered_json object;
  object["prompt"] = flags.prompt;
  object["text"] = text;
  object["tokens"] = made;
  object["seed"] = flags.options.seed;
  // A character of which not all bytes were made is no text.
  return Print(absl::StrCat(PrintableJson(DumpJson(object, 1)), "\n"));
}

// Prints text as `make` makes it. A model may have learned escape codes: a file gets all that it
// makes, a terminal does not.
absl::Status PrintText(absl::FunctionRef<absl::Status(Sink sink)> make) {
  PrintableStream shown;
  MUSTER_RETURN_IF_ERROR(
      make([&shown, terminal = isatty(STDOUT_FILENO) == 1](absl::string_view text) {
        return terminal ? Print(shown.Add(text)) : Print(text);
      }));
  return Print(shown.Finish() + "\n");
}

absl::Status Continue(const Flags& flags, LoadedTransformer& transformer,
                      const Tokenizer& tokenizer) {
  const auto make = [&](Sink sink) {
    return Generate(transformer, tokenizer, flags.prompt, flags.options, sink);
  };
  if (flags.json) return PrintObject(flags, make);
  return PrintText([&](Sink sink) {
    MUSTER_RETURN_IF_ERROR(sink(flags.prompt));
    return make(sink).status();
  });
}

// Answers the prompt or, without one, each line of standard input.
absl::Status Answer(const Flags& flags, LoadedTransformer& transformer,
                    const Tokenizer& tokenizer) {
  std::error_code error;
  std::string folder = flags.chat_template;
  if (folder.empty()) {
    if (!std::filesystem::is_directory(flags.model, error)) {
      return absl::InvalidArgumentError(
          absl::StrCat(flags.model,
                       " is a file, which has no chat template; name the folder of one with "
                       "--chat-template"));
    }
    folder = flags.model;
  }
  MUSTER_ASSIGN_OR_RETURN(Chat chat,
                          Chat::Open(folder, transformer, tokenizer, flags.options, flags.system));
  const auto say = [&](const std::string& message) {
    if (!flags.json) {
      return PrintText([&](Sink sink) { return chat.Say(message, sink).status(); });
    }
    return PrintObject(flags, [&](Sink sink) { return chat.Say(message, sink); });
  };
  if (!flags.prompt.empty()) return say(flags.prompt);
  const bool terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
  std::string line;
  while (true) {
    if (terminal) MUSTER_RETURN_IF_ERROR(Print("> "));
    if (!std::getline(std::cin, line)) break;
    if (!line.empty()) MUSTER_RETURN_IF_ERROR(say(line));
  }
  return terminal ? Print("\n") : absl::OkStatus();
}

absl::Status Compare(const Flags& flags) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<const ModelFile> file,
                          ModelFile::Open(flags.compare));
  // The folder is taken for what it says that it is; it has a tokenizer if the file has one.
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<const ModelFolder> folder,
                          ModelFolder::Open(flags.model));
  std::unique_ptr<const Tokenizer> original, written;
  if (file->tokenizer_json().has_value()) {
    MUSTER_ASSIGN_OR_RETURN(original, ParseTokenizer(*file->tokenizer_json(), "the job"));
    MUSTER_ASSIGN_OR_RETURN(written, OpenTokenizer(flags.model));
  }
  const DType type = flags.type == "bf16"  ? DType::kBf16
                     : flags.type == "f16" ? DType::kF16
                                           : DType::kF32;
  // A folder has adapters in the weights that they lie beside.
  const MergedWeights merged(*file,
                             file->adapter() == nullptr ? v1::AdapterSpec() : *file->adapter());
  return CompareModels({flags.model, folder.get(), written.get()},
                       {"the job", &merged, original.get()}, type);
}

absl::Status Run(const Flags& flags) {
  SetComputeThreads(flags.threads > 0 ? flags.threads : UsableProcessors());
  if (!flags.compare.empty()) return Compare(flags);
  MUSTER_RETURN_IF_ERROR(ValidateSampling(flags.options.sampling));
  MUSTER_ASSIGN_OR_RETURN(const OpenModel model, OpenAny(flags));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<LoadedTransformer> transformer,
                          LoadedTransformer::Create(*model.weights, model.adapter));
  return flags.chat ? Answer(flags, *transformer, *model.tokenizer)
                    : Continue(flags, *transformer, *model.tokenizer);
}

}  // namespace
}  // namespace muster

int main(int argc, char** argv) {
  // A closed pipe is an error to name, not a death.
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Continues a prompt with a trained transformer.", "muster-generate");
  muster::Flags flags;
  muster::GenerateOptions& options = flags.options;
  app.add_option("model", flags.model, "File of `muster export`, or folder with config.json")
      ->required();
  app.add_option("--prompt", flags.prompt, "Text to continue");
  app.add_option("--max-tokens", options.max_tokens, "Most tokens to add");
  app.add_option("--temperature", options.sampling.temperature, "0 takes the likeliest token");
  app.add_option("--top-k", options.sampling.top_k,
                 "Choose among this many likeliest tokens; 0: among all");
  app.add_option("--top-p", options.sampling.top_p,
                 "Choose among the fewest likeliest tokens whose probabilities add up to this");
  app.add_option("--seed", options.seed, "Seed of the choices");
  app.add_option("--tokenizer", flags.tokenizer,
                 "The model's tokenizer, if the model does not say where it is");
  app.add_option("--threads", flags.threads, "Threads to compute with; 0: one per core");
  app.add_flag("--chat", flags.chat, "The prompt is a message of a chat, which the model answers");
  app.add_option("--chat-template", flags.chat_template,
                 "Folder with the chat template, if the model is not in it");
  app.add_option("--system", flags.system, "The chat's first message, which says how to answer");
  app.add_option("--compare", flags.compare,
                 "Only compares the model with this file of `muster export`");
  app.add_option("--type", flags.type, "Type to which the file's weights are rounded")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  app.add_flag("--json", flags.json, "Print one object at the end: prompt, text, tokens, seed");
  if (const auto code = muster::ParseFlags(app, argc, argv)) return *code;
  return muster::ReportFailure(muster::Run(flags),
                               flags.json ? muster::ReportForm::kJson : muster::ReportForm::kText);
}
