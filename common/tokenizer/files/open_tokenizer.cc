#include "common/tokenizer/files/open_tokenizer.h"

#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/files/file_content.h"
#include "common/files/file_roots.h"
#include "common/tokenizer/bpe/byte_tokenizer.h"
#include "common/tokenizer/bpe/gpt2_files.h"
#include "common/tokenizer/files/parse_tokenizer.h"
#include "common/tokenizer/files/token_file.h"
#include "common/tokenizer/sentencepiece/sentencepiece_file.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr char kSentencepieceFile[] = "tokenizer.model";

absl::StatusOr<FileContent> Open(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat(
        "there is no tokenizer at ", path.string(),
        "; name a tokenizer.json or tokenizer.model, a folder with one or with vocab.json and "
        "merges.txt, or \"bytes\""));
  }
  return FileContent::Open(path.string());
}

absl::StatusOr<std::unique_ptr<const Tokenizer>> OpenGpt2Folder(const fs::path& folder) {
  MUSTER_ASSIGN_OR_RETURN(const FileContent vocab, Open(folder / "vocab.json"));
  MUSTER_ASSIGN_OR_RETURN(const FileContent merges, Open(folder / "merges.txt"));
  Gpt2Files files = {vocab.bytes(), merges.bytes()};
  const std::pair<const char*, std::optional<absl::string_view>*> beside[] = {
      {"added_tokens.json", &files.added_tokens},
      {"special_tokens_map.json", &files.special_tokens_map},
      {"tokenizer_config.json", &files.tokenizer_config},
      {"generation_config.json", &files.generation_config},
      {"config.json", &files.config}};
  // What the texts lie in.
  std::vector<FileContent> contents;
  contents.reserve(std::size(beside));
  std::error_code error;
  for (const auto& [name, text] : beside) {
    if (!fs::exists(folder / name, error)) continue;
    MUSTER_ASSIGN_OR_RETURN(FileContent content, Open(folder / name));
    contents.push_back(std::move(content));
    *text = contents.back().bytes();
  }
  MUSTER_ASSIGN_OR_RETURN(BpeVocabulary vocabulary, ParseGpt2Files(files, folder.string()));
  return CreateTokenizer(std::move(vocabulary), folder.string());
}

}  // namespace

absl::StatusOr<std::unique_ptr<const Tokenizer>> OpenTokenizer(const std::string& name) {
  if (name.empty() || name == "bytes") return std::make_unique<const ByteTokenizer>();
  MUSTER_RETURN_IF_ERROR(CheckWithinDataRoots(name));
  std::error_code error;
  fs::path path = name;
  if (fs::is_directory(path, error)) {
    if (fs::exists(path / "tokenizer.json", error)) {
      path /= "tokenizer.json";
    } else if (fs::exists(path / kSentencepieceFile, error)) {
      path /= kSentencepieceFile;
    } else {
      return OpenGpt2Folder(path);
    }
  }
  MUSTER_ASSIGN_OR_RETURN(const FileContent content, Open(path));
  if (content.bytes().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), " is empty; expected a tokenizer.json"));
  }
  if (IsTokenFile(content.bytes())) {
    MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<const TokenFile> file,
                            TokenFile::Open(path.string()));
    return ParseTokenizer(file->tokenizer().json(), path.string());
  }
  if (path.extension() != fs::path(kSentencepieceFile).extension()) {
    return ParseTokenizer(content.bytes(), path.string());
  }
  MUSTER_ASSIGN_OR_RETURN(auto model, ParseSentencepieceFile(content.bytes(), path.string()));
  return std::visit(
      [&](auto& vocabulary) { return CreateTokenizer(std::move(vocabulary), path.string()); },
      model);
}

}  // namespace muster
