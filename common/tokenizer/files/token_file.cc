#include "common/tokenizer/files/token_file.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "common/files/open_regular_file.h"
#include "common/files/output_file.h"
#include "common/tokenizer/files/parse_tokenizer.h"

namespace muster {
namespace {

constexpr char kMagic[8] = {'M', 'U', 'S', 'T', 'E', 'R', 'T', 'K'};
constexpr uint32_t kVersion = 1;
constexpr uint64_t kTokenizerAlignment = 64;
constexpr uint64_t kChecksumAlignment = 8;
constexpr size_t kWriteBytes = size_t{1} << 20;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t token_bytes;
  uint64_t tokens;
  uint64_t source_bytes;
  uint64_t tokenizer_bytes;
  uint64_t chunks;
  uint64_t fingerprint;
  char zeros[64];
  uint64_t checksum;
};
static_assert(sizeof(Header) == 128 && offsetof(Header, checksum) == 120, "a stored form");

uint64_t ChecksumOf(const Header& header) {
  return Fingerprint({reinterpret_cast<const char*>(&header), offsetof(Header, checksum)});
}

uint64_t Padding(uint64_t bytes, uint64_t alignment) {
  return (alignment - bytes % alignment) % alignment;
}

}  // namespace

bool IsTokenFile(absl::string_view bytes) {
  return bytes.size() >= sizeof(kMagic) && memcmp(bytes.data(), kMagic, sizeof(kMagic)) == 0;
}

bool IsTokenFileAt(const std::string& path) {
  const absl::StatusOr<OpenedFile> file = OpenRegularFile(path);
  if (!file.ok()) return false;
  char start[sizeof(kMagic)] = {};
  const ssize_t got = pread(file->descriptor, start, sizeof(start), 0);
  close(file->descriptor);
  return got > 0 && IsTokenFile({start, static_cast<size_t>(got)});
}

absl::StatusOr<std::unique_ptr<TokenFileWriter>> TokenFileWriter::Create(const std::string& out,
                                                                         const Tokenizer& tokenizer,
                                                                         Replace replace) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<OutputFile> file, OutputFile::Create(out, replace));
  auto writer = absl::WrapUnique(new TokenFileWriter(out, tokenizer, std::move(file)));
  // The header is known at the end only.
  MUSTER_RETURN_IF_ERROR(writer->WriteBytes(std::string(sizeof(Header), '\0')));
  const std::string& json = tokenizer.json();
  MUSTER_RETURN_IF_ERROR(writer->WriteBytes(json));
  MUSTER_RETURN_IF_ERROR(
      writer->WriteBytes(std::string(Padding(json.size(), kTokenizerAlignment), '\0')));
  return writer;
}

TokenFileWriter::TokenFileWriter(std::string path, const Tokenizer& tokenizer,
                                 std::unique_ptr<OutputFile> file)
    : path_(std::move(path)), tokenizer_(tokenizer), file_(std::move(file)) {}

absl::Status TokenFileWriter::WriteBytes(absl::string_view bytes) {
  pending_.append(bytes.data(), bytes.size());
  if (pending_.size() < kWriteBytes) return absl::OkStatus();
  const std::string full = std::exchange(pending_, std::string());
  return file_->Write(full);
}

absl::Status TokenFileWriter::WriteTokens(absl::Span<const int32_t> tokens) {
  std::string packed;
  PackTokens(tokens, TokenBytes(tokenizer_.vocabulary()), packed);
  chunks_.Add(packed);
  return WriteBytes(packed);
}

absl::Status TokenFileWriter::AddDocument(absl::string_view text) {
  absl::Status status;
  if (const std::optional<int32_t> end = tokenizer_.end_of_text(); end.has_value() && !empty_) {
    status = WriteTokens({&*end, 1});
  }
  empty_ = false;
  source_bytes_ += text.size();
  tokenizer_.Encode(text, [&](absl::Span<const int32_t> tokens) {
    if (status.ok()) status = WriteTokens(tokens);
  });
  return status;
}

absl::StatusOr<TokenFileSummary> TokenFileWriter::Finish() {
  if (chunks_.bytes() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is nothing to write to ", path_, "; the text is empty"));
  }
  Header header = {};
  memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.token_bytes = static_cast<uint32_t>(TokenBytes(tokenizer_.vocabulary()));
  header.tokens = chunks_.bytes() / header.token_bytes;
  header.source_bytes = source_bytes_;
  header.tokenizer_bytes = tokenizer_.json().size();
  MUSTER_RETURN_IF_ERROR(
      WriteBytes(std::string(Padding(chunks_.bytes(), kChecksumAlignment), '\0')));
  const std::vector<uint64_t> checksums = chunks_.Finish();
  header.chunks = checksums.size();
  header.fingerprint = TokensFingerprint(tokenizer_.json(), header.tokens, checksums);
  header.checksum = ChecksumOf(header);
  MUSTER_RETURN_IF_ERROR(WriteBytes(
      {reinterpret_cast<const char*>(checksums.data()), checksums.size() * sizeof(uint64_t)}));
  MUSTER_RETURN_IF_ERROR(file_->Write(pending_));
  MUSTER_RETURN_IF_ERROR(
      file_->WriteAt(0, {reinterpret_cast<const char*>(&header), sizeof(header)}));
  MUSTER_RETURN_IF_ERROR(file_->Publish());
  TokenFileSummary summary;
  summary.tokens = header.tokens;
  summary.source_bytes = header.source_bytes;
  summary.token_bytes = static_cast<int>(header.token_bytes);
  return summary;
}

absl::StatusOr<std::unique_ptr<const TokenFile>> TokenFile::Open(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(FileContent content, FileContent::Open(path));
  auto file = absl::WrapUnique(new TokenFile(path, std::move(content)));
  MUSTER_RETURN_IF_ERROR(file->Parse());
  return std::unique_ptr<const TokenFile>(std::move(file));
}

TokenFile::TokenFile(std::string path, FileContent content)
    : path_(std::move(path)), content_(std::move(content)) {}

absl::Status TokenFile::Parse() {
  const absl::string_view bytes = content_.bytes();
  const auto damaged = [this](absl::string_view what) {
    return absl::DataLossError(absl::StrCat("the token file ", path_, " is damaged: ", what,
                                            "; make it again with `muster data tokenize`"));
  };
  if (!IsTokenFile(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, " is no token file; `muster data tokenize` makes one"));
  }
  Header header;
  if (bytes.size() < sizeof(header)) return damaged("it ends within its header");
  memcpy(&header, bytes.data(), sizeof(header));
  // Newer ones may lay out all that follows the version in another way.
  if (header.version > kVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the token file ", path_, " has format version ", header.version,
        ", written by a later release of Muster; this one reads formats up to ", kVersion));
  }
  if (header.checksum != ChecksumOf(header)) return damaged("its header's checksum is wrong");
  const uint64_t rest = bytes.size() - sizeof(header);
  const uint64_t chunk_tokens = kTokenChunkBytes / std::max<uint32_t>(1, header.token_bytes);
  if ((header.token_bytes != 1 && header.token_bytes != 2 && header.token_bytes != 4) ||
      header.tokens > rest / header.token_bytes || header.tokenizer_bytes > rest ||
      header.chunks != CeilDivide<uint64_t>(header.tokens, chunk_tokens)) {
    return damaged(absl::StrCat("it has ", bytes.size(), " bytes, too few for the ", header.tokens,
                                " tokens it names"));
  }
  const uint64_t token_bytes = header.tokens * header.token_bytes;
  const uint64_t tokens_at = sizeof(header) + header.tokenizer_bytes +
                             Padding(header.tokenizer_bytes, kTokenizerAlignment);
  const uint64_t checksums_at = tokens_at + token_bytes + Padding(token_bytes, kChecksumAlignment);
  const uint64_t expected = checksums_at + header.chunks * sizeof(uint64_t);
  if (bytes.size() != expected) {
    return damaged(absl::StrCat("it has ", bytes.size(), " bytes, expected ", expected));
  }
  const absl::string_view json = bytes.substr(sizeof(header), header.tokenizer_bytes);
  std::vector<uint64_t> checksums(header.chunks);
  if (!checksums.empty()) {
    memcpy(checksums.data(), bytes.data() + checksums_at, checksums.size() * sizeof(uint64_t));
  }
  if (TokensFingerprint(json, header.tokens, checksums) != header.fingerprint) {
    return damaged("its tokenizer or its table of checksums is not what was written");
  }
  MUSTER_ASSIGN_OR_RETURN(tokenizer_, ParseTokenizer(json, path_));
  CheckedTokens::Layout layout;
  layout.packed = bytes.substr(tokens_at, token_bytes);
  layout.token_bytes = static_cast<int>(header.token_bytes);
  layout.vocabulary = tokenizer_->vocabulary();
  layout.checksums = bytes.substr(checksums_at);
  tokens_ = std::make_unique<const CheckedTokens>(layout, absl::StrCat("the token file ", path_));
  source_bytes_ = header.source_bytes;
  fingerprint_ = header.fingerprint;
  return absl::OkStatus();
}

absl::Status TokenFile::Read(uint64_t first, uint64_t count, std::vector<int32_t>& out) const {
  return tokens_->Read(first, count, out);
}

}  // namespace muster
