#include "common/tokenizer/files/token_file.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
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
constexpr uint32_t kVersion = 2;
constexpr uint64_t kTokenizerAlignment = 64;
// All that follows the tokens has it.
constexpr uint64_t kAlignment = 8;
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
  // Zero in version 1.
  uint64_t documents;
  uint64_t documents_fingerprint;
  uint64_t trained_chunks;
  char zeros[40];
  uint64_t checksum;
};
static_assert(sizeof(Header) == 128 && offsetof(Header, checksum) == 120, "a stored form");

uint64_t ChecksumOf(const Header& header) {
  return Fingerprint({reinterpret_cast<const char*>(&header), offsetof(Header, checksum)});
}

uint64_t Padding(uint64_t bytes, uint64_t alignment) {
  return (alignment - bytes % alignment) % alignment;
}

absl::string_view AsBytes(absl::Span<const uint64_t> numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(uint64_t)};
}

// Places of a file's parts, in bytes.
struct Places {
  uint64_t tokens = 0;
  uint64_t tokens_bytes = 0;
  uint64_t checksums = 0;
  uint64_t document_ends = 0;
  uint64_t trained = 0;
  uint64_t trained_bytes = 0;
  uint64_t trained_checksums = 0;
  uint64_t end = 0;
};

// REQUIRES: no number in the header is larger than the file.
Places PlacesOf(const Header& header) {
  Places places;
  places.tokens = sizeof(header) + header.tokenizer_bytes +
                  Padding(header.tokenizer_bytes, kTokenizerAlignment);
  places.tokens_bytes = header.tokens * header.token_bytes;
  places.checksums = places.tokens + places.tokens_bytes + Padding(places.tokens_bytes, kAlignment);
  places.document_ends = places.checksums + header.chunks * sizeof(uint64_t);
  places.trained = places.document_ends + header.documents * sizeof(uint64_t);
  places.trained_bytes = header.trained_chunks == 0 ? 0 : CeilDivide<uint64_t>(header.tokens, 8);
  places.trained_checksums =
      places.trained + places.trained_bytes + Padding(places.trained_bytes, kAlignment);
  places.end = places.trained_checksums + header.trained_chunks * sizeof(uint64_t);
  return places;
}

// Returns the fingerprint of a file: that of the tokens alone if all of them are to be learned.
uint64_t FileFingerprint(absl::string_view json, uint64_t tokens,
                         absl::Span<const uint64_t> checksums,
                         absl::Span<const uint64_t> trained_checksums) {
  const uint64_t of_tokens = TokensFingerprint(json, static_cast<int64_t>(tokens), checksums);
  if (trained_checksums.empty()) return of_tokens;
  FingerprintStream fingerprint;
  fingerprint.Add(&of_tokens, sizeof(of_tokens));
  fingerprint.Add(trained_checksums.data(), trained_checksums.size() * sizeof(uint64_t));
  return fingerprint.Finish();
}

std::vector<uint64_t> NumbersIn(absl::string_view bytes) {
  std::vector<uint64_t> numbers(bytes.size() / sizeof(uint64_t));
  if (!numbers.empty()) memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(uint64_t));
  return numbers;
}

// Returns an error's text for ends that do not divide the tokens into documents; empty: they do.
std::string WrongEnds(absl::Span<const uint64_t> ends, uint64_t tokens) {
  uint64_t before = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] <= before || ends[i] > tokens) {
      return absl::StrCat("its document ", i, " ends at token ", ends[i], ", expected more than ",
                          before, " and at most ", tokens);
    }
    before = ends[i];
  }
  if (before == tokens) return "";
  return absl::StrCat("its documents end at token ", before, ", but it has ", tokens);
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
  MUSTER_RETURN_IF_ERROR(writer->WriteHead());
  return writer;
}

absl::StatusOr<std::unique_ptr<TokenFileWriter>> TokenFileWriter::GoOn(const std::string& out,
                                                                       const Tokenizer& tokenizer,
                                                                       Replace replace,
                                                                       const std::string& source) {
  const std::optional<TokenFileProgress> progress = ReadTokenFileProgress(out + ".progress");
  if (progress.has_value() && progress->source == source && progress->bytes > 0) {
    auto writer = OpenKept(out, tokenizer, replace, progress);
    // Files that are damaged or incomplete are begun anew.
    if (writer.ok() || !absl::IsDataLoss(writer.status())) return writer;
  }
  std::error_code error;
  const std::string partial = out + ".partial";
  if (!progress.has_value() && std::filesystem::exists(partial, error) &&
      std::filesystem::file_size(partial, error) > 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(partial,
                     " is there already, and nothing tells that it is a token file in the "
                     "making; remove it, or name another file to write"));
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<TokenFileWriter> writer,
                          OpenKept(out, tokenizer, replace, std::nullopt));
  // Told before the first byte is written, so that whoever goes on knows the file for ours.
  TokenFileProgress none;
  none.source = writer->source_ = source;
  MUSTER_RETURN_IF_ERROR(WriteTokenFileProgress(writer->progress_path(), none));
  MUSTER_RETURN_IF_ERROR(writer->WriteHead());
  return writer;
}

absl::StatusOr<std::unique_ptr<TokenFileWriter>> TokenFileWriter::OpenKept(
    const std::string& out, const Tokenizer& tokenizer, Replace replace,
    const std::optional<TokenFileProgress>& progress) {
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<OutputFile> file, OutputFile::OpenKept(out, replace));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<OutputFile> ends,
                          OutputFile::OpenKept(out + ".ends", Replace::kFiles));
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<OutputFile> trained,
                          OutputFile::OpenKept(out + ".trained", Replace::kFiles));
  MUSTER_RETURN_IF_ERROR(file->Shorten(progress.has_value() ? progress->bytes : 0));
  auto writer = absl::WrapUnique(new TokenFileWriter(out, tokenizer, std::move(file)));
  writer->kept_ = true;
  MUSTER_RETURN_IF_ERROR(
      writer->ends_.KeepIn(std::move(ends), progress.has_value() ? progress->ends : 0));
  MUSTER_RETURN_IF_ERROR(
      writer->packed_.KeepIn(std::move(trained), progress.has_value() ? progress->packed : 0));
  if (progress.has_value()) MUSTER_RETURN_IF_ERROR(writer->Restore(*progress));
  return writer;
}

absl::Status TokenFileWriter::Restore(const TokenFileProgress& progress) {
  const auto differs = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(what, " of ", path_, " differ from what was written"));
  };
  const uint64_t head = sizeof(Header) + tokenizer_.json().size() +
                        Padding(tokenizer_.json().size(), kTokenizerAlignment);
  const uint64_t packed = progress.tokens * TokenBytes(tokenizer_.vocabulary());
  const uint64_t complete = progress.chunks.size() * kTokenChunkBytes;
  if (progress.bytes != head + packed || packed < complete ||
      packed - complete >= kTokenChunkBytes) {
    return differs("the lengths");
  }
  chunks_.Restore(progress.chunks);
  MUSTER_ASSIGN_OR_RETURN(const std::string rest,
                          file_->ReadAt(static_cast<int64_t>(head + complete), packed - complete));
  chunks_.Add(rest);
  if (chunks_.rest() != progress.rest) return differs("the last tokens");
  if (ends_.fingerprint() != progress.ends_fingerprint) return differs("the document ends");
  if (packed_.fingerprint() != progress.packed_fingerprint) return differs("the trained bits");
  trained_.Restore(progress.trained);
  written_ = progress.bytes;
  tokens_ = kept_tokens_ = progress.tokens;
  source_bytes_ = progress.source_bytes;
  last_end_ = progress.last_end;
  after_text_ = progress.after_text;
  source_ = progress.source;
  position_ = progress.position;
  return absl::OkStatus();
}

absl::Status TokenFileWriter::Keep(const std::string& position) {
  const std::string pending = std::exchange(pending_, std::string());
  MUSTER_RETURN_IF_ERROR(file_->Write(pending));
  written_ += pending.size();
  MUSTER_RETURN_IF_ERROR(file_->Sync());
  MUSTER_RETURN_IF_ERROR(ends_.Flush());
  MUSTER_RETURN_IF_ERROR(packed_.Flush());
  TokenFileProgress progress;
  progress.source = source_;
  progress.position = position;
  progress.bytes = written_;
  progress.tokens = tokens_;
  progress.source_bytes = source_bytes_;
  progress.last_end = last_end_;
  progress.after_text = after_text_;
  progress.chunks = chunks_.complete();
  progress.rest = chunks_.rest();
  progress.ends = ends_.size();
  progress.ends_fingerprint = ends_.fingerprint();
  progress.trained = trained_.state();
  progress.packed = packed_.size();
  progress.packed_fingerprint = packed_.fingerprint();
  return WriteTokenFileProgress(progress_path(), progress);
}

void TokenFileWriter::Remove() {
  // The progress goes last, since it tells that the others are a writer's.
  file_->Remove();
  ends_.Remove();
  packed_.Remove();
  std::error_code ignored;
  std::filesystem::remove(progress_path(), ignored);
}

absl::Status TokenFileWriter::WriteHead() {
  // The header is known at the end only.
  MUSTER_RETURN_IF_ERROR(WriteBytes(std::string(sizeof(Header), '\0')));
  const std::string& json = tokenizer_.json();
  MUSTER_RETURN_IF_ERROR(WriteBytes(json));
  return WriteBytes(std::string(Padding(json.size(), kTokenizerAlignment), '\0'));
}

TokenFileWriter::TokenFileWriter(std::string path, const Tokenizer& tokenizer,
                                 std::unique_ptr<OutputFile> file)
    : path_(std::move(path)),
      tokenizer_(tokenizer),
      file_(std::move(file)),
      ends_(path_),
      trained_(path_),
      packed_(trained_.packed()) {}

absl::Status TokenFileWriter::WriteBytes(absl::string_view bytes) {
  pending_.append(bytes.data(), bytes.size());
  if (pending_.size() < kWriteBytes) return absl::OkStatus();
  const std::string full = std::exchange(pending_, std::string());
  written_ += full.size();
  return file_->Write(full);
}

absl::Status TokenFileWriter::WriteTokens(absl::Span<const int32_t> tokens) {
  std::string packed;
  PackTokens(tokens, TokenBytes(tokenizer_.vocabulary()), packed);
  chunks_.Add(packed);
  return WriteBytes(packed);
}

absl::Status TokenFileWriter::SeparateText() {
  if (!std::exchange(after_text_, false)) return absl::OkStatus();
  if (const std::optional<int32_t> end = tokenizer_.end_of_text(); end.has_value()) {
    MUSTER_RETURN_IF_ERROR(AddTokens({&*end, 1}, Trained::kYes, 0));
  }
  return EndTokens();
}

absl::Status TokenFileWriter::AddDocument(absl::string_view text) {
  MUSTER_RETURN_IF_ERROR(SeparateText());
  MUSTER_RETURN_IF_ERROR(EndTokens());
  absl::Status status;
  tokenizer_.Encode(text, TextStart::kDocument, [&](absl::Span<const int32_t> tokens) {
    if (status.ok()) status = AddTokens(tokens, Trained::kYes, 0);
  });
  source_bytes_ += text.size();
  EndText();
  return status;
}

absl::Status TokenFileWriter::AddTokens(absl::Span<const int32_t> tokens, Trained trained,
                                        uint64_t source_bytes) {
  MUSTER_RETURN_IF_ERROR(SeparateText());
  source_bytes_ += source_bytes;
  tokens_ += tokens.size();
  MUSTER_RETURN_IF_ERROR(trained_.Add(tokens.size(), trained == Trained::kYes));
  return WriteTokens(tokens);
}

absl::Status TokenFileWriter::EndDocument() {
  // A text's end is known when something follows it.
  return after_text_ ? absl::OkStatus() : EndTokens();
}

absl::Status TokenFileWriter::EndTokens() {
  if (tokens_ == last_end_) return absl::OkStatus();
  last_end_ = tokens_;
  return ends_.Append(AsBytes({&tokens_, 1}));
}

absl::StatusOr<TokenFileSummary> TokenFileWriter::Finish() {
  MUSTER_RETURN_IF_ERROR(EndTokens());
  if (tokens_ == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is nothing to write to ", path_, "; the text is empty"));
  }
  Header header = {};
  memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.token_bytes = static_cast<uint32_t>(TokenBytes(tokenizer_.vocabulary()));
  header.tokens = tokens_;
  header.source_bytes = source_bytes_;
  header.tokenizer_bytes = tokenizer_.json().size();
  header.documents = ends_.size() / sizeof(uint64_t);
  header.documents_fingerprint = ends_.fingerprint();
  MUSTER_RETURN_IF_ERROR(WriteBytes(std::string(Padding(chunks_.bytes(), kAlignment), '\0')));
  const std::vector<uint64_t> checksums = chunks_.Finish();
  header.chunks = checksums.size();
  MUSTER_RETURN_IF_ERROR(WriteBytes(AsBytes(checksums)));
  const auto write = [this](absl::string_view bytes) { return WriteBytes(bytes); };
  MUSTER_RETURN_IF_ERROR(ends_.ForEach(write));
  TokenChunks trained;
  MUSTER_RETURN_IF_ERROR(trained_.Finish([&](absl::string_view packed) {
    trained.Add(packed);
    return WriteBytes(packed);
  }));
  MUSTER_RETURN_IF_ERROR(WriteBytes(std::string(Padding(trained.bytes(), kAlignment), '\0')));
  const std::vector<uint64_t> trained_checksums = trained.Finish();
  header.trained_chunks = trained_checksums.size();
  MUSTER_RETURN_IF_ERROR(WriteBytes(AsBytes(trained_checksums)));
  header.fingerprint =
      FileFingerprint(tokenizer_.json(), header.tokens, checksums, trained_checksums);
  header.checksum = ChecksumOf(header);
  MUSTER_RETURN_IF_ERROR(file_->Write(pending_));
  MUSTER_RETURN_IF_ERROR(
      file_->WriteAt(0, {reinterpret_cast<const char*>(&header), sizeof(header)}));
  MUSTER_RETURN_IF_ERROR(file_->Publish());
  if (kept_) Remove();
  TokenFileSummary summary;
  summary.tokens = header.tokens;
  summary.source_bytes = header.source_bytes;
  summary.token_bytes = static_cast<int>(header.token_bytes);
  summary.documents = header.documents;
  summary.trained_tokens = trained_.trained();
  summary.kept_tokens = kept_tokens_;
  return summary;
}

absl::StatusOr<std::unique_ptr<const TokenFile>> TokenFile::Open(
    const std::string& path, const FileContentOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(FileContent content, FileContent::Open(path, options));
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
  if (header.version < 2) {
    header.documents = 0;
    header.documents_fingerprint = 0;
    header.trained_chunks = 0;
  }
  const uint64_t rest = bytes.size() - sizeof(header);
  const uint64_t chunk_tokens = kTokenChunkBytes / std::max<uint32_t>(1, header.token_bytes);
  if ((header.token_bytes != 1 && header.token_bytes != 2 && header.token_bytes != 4) ||
      header.tokens > rest / header.token_bytes || header.tokenizer_bytes > rest ||
      header.chunks != CeilDivide<uint64_t>(header.tokens, chunk_tokens)) {
    return damaged(absl::StrCat("it has ", bytes.size(), " bytes, too few for the ", header.tokens,
                                " tokens it names"));
  }
  if (header.documents > rest / sizeof(uint64_t) ||
      (header.trained_chunks != 0 &&
       header.trained_chunks != CeilDivide<uint64_t>(header.tokens, 8 * kTokenChunkBytes))) {
    return damaged(absl::StrCat("it has ", bytes.size(), " bytes, too few for the ",
                                header.documents, " documents and ", header.trained_chunks,
                                " chunks of trained bits it names"));
  }
  const Places places = PlacesOf(header);
  if (bytes.size() != places.end) {
    return damaged(absl::StrCat("it has ", bytes.size(), " bytes, expected ", places.end));
  }
  const absl::string_view json = bytes.substr(sizeof(header), header.tokenizer_bytes);
  const auto between = [bytes](uint64_t begin, uint64_t end) {
    return bytes.substr(begin, end - begin);
  };
  const absl::string_view checksums = between(places.checksums, places.document_ends);
  const absl::string_view trained_checksums = bytes.substr(places.trained_checksums);
  if (FileFingerprint(json, header.tokens, NumbersIn(checksums), NumbersIn(trained_checksums)) !=
      header.fingerprint) {
    return damaged("its tokenizer or its table of checksums is not what was written");
  }
  const absl::string_view ends = between(places.document_ends, places.trained);
  if (header.version >= 2) {
    if (Fingerprint(ends) != header.documents_fingerprint) {
      return damaged("its table of documents is not what was written");
    }
    // The place is a multiple of kAlignment, and a file's bytes begin at one.
    document_ends_ = {reinterpret_cast<const uint64_t*>(ends.data()), header.documents};
    const std::string wrong = WrongEnds(document_ends_, header.tokens);
    if (!wrong.empty()) return damaged(wrong);
  }
  MUSTER_ASSIGN_OR_RETURN(tokenizer_, ParseTokenizer(json, path_));
  CheckedTokens::Layout layout;
  layout.packed = bytes.substr(places.tokens, places.tokens_bytes);
  layout.token_bytes = static_cast<int>(header.token_bytes);
  layout.vocabulary = tokenizer_->vocabulary();
  layout.checksums = checksums;
  tokens_ = std::make_unique<const CheckedTokens>(layout, absl::StrCat("the token file ", path_));
  if (header.trained_chunks != 0) {
    trained_ = std::make_unique<const CheckedBits>(
        bytes.substr(places.trained, places.trained_bytes), trained_checksums,
        absl::StrCat("the row of trained bits in the token file ", path_));
  }
  source_bytes_ = header.source_bytes;
  fingerprint_ = header.fingerprint;
  documents_fingerprint_ = header.documents_fingerprint;
  return absl::OkStatus();
}

absl::Status TokenFile::Read(uint64_t first, uint64_t count, std::vector<int32_t>& out) const {
  return tokens_->Read(first, count, out);
}

absl::Status TokenFile::ReadTrained(uint64_t first, uint64_t count,
                                    std::vector<uint8_t>& out) const {
  if (trained_ != nullptr) return trained_->Read(first, count, out);
  out.insert(out.end(), count, 1);
  return absl::OkStatus();
}

}  // namespace muster
