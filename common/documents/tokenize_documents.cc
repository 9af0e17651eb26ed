#include "common/documents/tokenize_documents.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/chat_template/model_chat_template.h"
#include "common/documents/text_cutter.h"

namespace muster {
namespace {

// Batches have at least so many pieces of a text for each thread.
constexpr size_t kPiecesOfBatch = 4;

// A place up to which documents were encoded.
struct Place {
  DocumentPosition documents;
  // Bytes of the text that follows.
  uint64_t text_bytes = 0;
};

std::string TextOf(const Place& place) {
  return absl::StrCat(place.documents.files, " ", place.documents.inside, " ", place.text_bytes);
}

// REQUIRES: TextOf made the text, or it is empty.
Place PlaceIn(const std::string& text) {
  Place place;
  const std::vector<std::string> numbers = absl::StrSplit(text, ' ');
  if (numbers.size() != 3) return place;
  const bool read = absl::SimpleAtoi(numbers[0], &place.documents.files) &&
                    absl::SimpleAtoi(numbers[1], &place.documents.inside) &&
                    absl::SimpleAtoi(numbers[2], &place.text_bytes);
  return read ? place : Place();
}

// A line's document or a part of a text: its text, then its tokens.
struct Piece {
  enum class Kind { kLine, kText, kEndOfText };
  Kind kind = Kind::kLine;
  TextStart start = TextStart::kDocument;
  std::string text;
  // The parts end here in the text, and later here among the tokens.
  std::vector<std::pair<size_t, Trained>> parts;
  std::vector<int32_t> tokens;
};

void Encode(const Tokenizer& tokenizer, Piece& piece) {
  size_t begin = 0;
  for (auto& [end, trained] : piece.parts) {
    tokenizer.Encode(absl::string_view(piece.text).substr(begin, end - begin),
                     begin == 0 ? piece.start : TextStart::kWithin,
                     [&piece](absl::Span<const int32_t> tokens) {
                       piece.tokens.insert(piece.tokens.end(), tokens.begin(), tokens.end());
                     });
    begin = std::exchange(end, piece.tokens.size());
  }
  if (piece.kind != Piece::Kind::kLine) return;
  const std::optional<int32_t> end_of_text = tokenizer.end_of_text();
  if (!end_of_text.has_value() || piece.tokens.empty() || piece.tokens.back() == *end_of_text) {
    return;
  }
  piece.tokens.push_back(*end_of_text);
  ++piece.parts.back().first;
}

// Returns how many bytes tokens stand for; those between documents stand for none.
uint64_t TextBytes(const Tokenizer& tokenizer, absl::Span<const int32_t> tokens) {
  uint64_t bytes = 0;
  for (const int32_t token : tokens) {
    if (!IsBetweenDocuments(tokenizer, token)) bytes += tokenizer.BytesOf(token).size();
  }
  return bytes;
}

// Collects pieces, encodes them together, writes them in order, and keeps what was written.
class Batches {
 public:
  // The first text begins after `text_bytes` bytes.
  Batches(const Tokenizer& tokenizer, const TokenizeOptions& options, uint64_t text_bytes,
          TokenFileWriter& writer)
      : tokenizer_(tokenizer),
        options_(options),
        piece_bytes_(std::max<size_t>(1, options.batch_bytes / kPiecesOfBatch)),
        batch_bytes_(std::max(options.batch_bytes, piece_bytes_ * options.threads)),
        cutter_(tokenizer, piece_bytes_, text_bytes),
        writer_(writer) {}

  absl::Status AddLine(const Document& document) {
    Piece& line = pieces_.emplace_back();
    line.start = document.start;
    for (const TextPart& part : document.parts) {
      line.text.append(part.text.data(), part.text.size());
      line.parts.emplace_back(line.text.size(), part.trained);
    }
    return Added(line, {document.next, 0});
  }

  // Adds a text, or the next part of it, and tells `progress` of each piece.
  absl::Status AddText(const Document& document, absl::FunctionRef<void(uint64_t bytes)> progress) {
    return cutter_.Cut(document, [&](const TextCutter::Piece& cut) {
      Piece& piece = pieces_.emplace_back();
      piece.kind = cut.last ? Piece::Kind::kEndOfText : Piece::Kind::kText;
      piece.start = cut.start;
      piece.text = std::string(cut.text);
      piece.parts.emplace_back(piece.text.size(), Trained::kYes);
      progress(piece.text.size());
      Place behind = {document.next, 0};
      if (!cut.last) behind = {{document.next.files - 1, 0}, cut.end};
      return Added(piece, behind);
    });
  }

  absl::Status AddTokens(const Document& document) {
    const uint64_t bytes = TextBytes(tokenizer_, document.tokens);
    MUSTER_RETURN_IF_ERROR(writer_.AddTokens(document.tokens, Trained::kYes, bytes));
    if (!document.continues) MUSTER_RETURN_IF_ERROR(writer_.EndDocument());
    behind_ = {document.next, 0};
    bytes_ += bytes;
    return bytes_ < batch_bytes_ ? absl::OkStatus() : Write();
  }

  absl::Status Write() {
    std::atomic<size_t> next = 0;
    const auto encode = [&] {
      for (size_t i = next++; i < pieces_.size(); i = next++) Encode(tokenizer_, pieces_[i]);
    };
    std::vector<std::thread> threads;
    for (size_t i = 1; i < std::min<size_t>(options_.threads, pieces_.size()); ++i) {
      threads.emplace_back(encode);
    }
    encode();
    for (std::thread& thread : threads) thread.join();
    for (const Piece& piece : pieces_) MUSTER_RETURN_IF_ERROR(WritePiece(piece));
    pieces_.clear();
    unkept_ += std::exchange(bytes_, 0);
    if (options_.added) MUSTER_RETURN_IF_ERROR(options_.added(writer_.bytes()));
    if (unkept_ < options_.keep_bytes) return absl::OkStatus();
    unkept_ = 0;
    return writer_.Keep(TextOf(behind_));
  }

 private:
  absl::Status Added(const Piece& piece, const Place& behind) {
    bytes_ += piece.text.size();
    behind_ = behind;
    return bytes_ < batch_bytes_ ? absl::OkStatus() : Write();
  }

  absl::Status WritePiece(const Piece& piece) {
    size_t begin = 0;
    for (const auto& [end, trained] : piece.parts) {
      const auto tokens = absl::MakeConstSpan(piece.tokens).subspan(begin, end - begin);
      MUSTER_RETURN_IF_ERROR(
          writer_.AddTokens(tokens, trained, begin == 0 ? piece.text.size() : 0));
      begin = end;
    }
    if (piece.kind == Piece::Kind::kLine) return writer_.EndDocument();
    if (piece.kind == Piece::Kind::kEndOfText) writer_.EndText();
    return absl::OkStatus();
  }

  const Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
  const size_t piece_bytes_;
  const size_t batch_bytes_;
  TextCutter cutter_;
  TokenFileWriter& writer_;
  std::vector<Piece> pieces_;
  // Behind what was added last.
  Place behind_;
  // Bytes of text in the batch, and in those since what was written was kept.
  size_t bytes_ = 0;
  size_t unkept_ = 0;
};

absl::Status Tokenize(const DocumentSource& source, const DocumentOptions& options,
                      const Tokenizer& tokenizer, const TokenizeOptions& tokenize,
                      TokenFileWriter& writer) {
  const Place begin = PlaceIn(writer.position());
  DocumentOptions read = options;
  read.tokens.vocabulary = tokenizer.vocabulary();
  read.tokens.end_of_text = tokenizer.end_of_text();
  read.begin = begin.documents;
  // Pieces of a text are told when they are encoded, the rest of it by who reads it. How much of a
  // compressed file they are is known to its reader alone.
  uint64_t told = 0;
  const auto tell = [&](uint64_t bytes) {
    if (options.json.progress) options.json.progress(bytes);
  };
  read.json.progress = [&](uint64_t bytes) { tell(bytes - std::exchange(told, 0)); };
  Batches batches(tokenizer, tokenize, begin.text_bytes, writer);
  const bool tell_pieces = source.form == DocumentSource::Form::kText;
  const auto take = [&](const Document& document) {
    if (document.line > 0) return batches.AddLine(document);
    if (document.parts.empty()) return batches.AddTokens(document);
    return batches.AddText(document, [&](uint64_t bytes) {
      if (!tell_pieces) return;
      told += bytes;
      tell(bytes);
    });
  };
  MUSTER_RETURN_IF_ERROR(ForEachDocument(source, read, take));
  return batches.Write();
}

}  // namespace

absl::StatusOr<std::string> TokenFileSource(const DocumentSource& source,
                                            const DocumentOptions& options,
                                            const Tokenizer& tokenizer) {
  MUSTER_ASSIGN_OR_RETURN(std::string text, FilesOf(source));
  absl::StrAppend(&text, "tokenizer ", tokenizer.fingerprint(), " ", Fingerprint(tokenizer.json()));
  if (!HasFields(source.form)) return text;
  absl::StrAppend(&text, "\nfield ", options.json.field);
  if (options.json.chat_template != nullptr) {
    absl::StrAppend(&text, "\nchat template ", options.json.chat_template->fingerprint());
  }
  return text;
}

absl::StatusOr<TokenFileSummary> MakeTokenFile(const DocumentSource& source,
                                               const DocumentOptions& options,
                                               const Tokenizer& tokenizer,
                                               const TokenizeOptions& tokenize,
                                               const std::string& out, Replace replace) {
  MUSTER_ASSIGN_OR_RETURN(const std::string made_of, TokenFileSource(source, options, tokenizer));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<TokenFileWriter> writer,
                          TokenFileWriter::GoOn(out, tokenizer, replace, made_of));
  const auto make = [&]() -> absl::StatusOr<TokenFileSummary> {
    MUSTER_RETURN_IF_ERROR(Tokenize(source, options, tokenizer, tokenize, *writer));
    // If the source has changed meanwhile, the file has a part of it as it was and one as it is.
    MUSTER_ASSIGN_OR_RETURN(const std::string now, TokenFileSource(source, options, tokenizer));
    if (now == made_of) return writer->Finish();
    return absl::InvalidArgumentError(
        absl::StrCat(source.path, " was changed while it was read; do it again"));
  };
  absl::StatusOr<TokenFileSummary> summary = make();
  if (absl::IsInvalidArgument(summary.status())) writer->Remove();
  return summary;
}

}  // namespace muster
