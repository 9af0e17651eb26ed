#include "common/documents/token_shard.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/text/data_error.h"

namespace muster {
namespace {

constexpr absl::string_view kNumpyMagic("\x93NUMPY", 6);
constexpr absl::string_view kMegatronMagic("MMIDIDX\0\0", 9);
constexpr uint32_t kLlmCMagics[] = {20240520, 20240801};
// llm.c's multiple-choice questions.
constexpr uint32_t kLlmCQuestions = 20240522;
constexpr size_t kLlmCHeaderBytes = 256 * 4;
// NumPy itself refuses to evaluate longer ones.
constexpr size_t kMostNumpyHeaderBytes = 10'000;
// Tokens that are given away at once.
constexpr uint64_t kTokensAtOnce = WindowedFile::kBytes / 8;

template <typename T>
T NumberAt(absl::string_view bytes, size_t at) {
  T number;
  memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

absl::Status Refuse(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", why));
}

// Checks that the row is all that follows its beginning.
absl::Status CheckSize(const WindowedFile& file, const TokenRow& row) {
  const uint64_t there = file.size() - row.offset;
  const uint64_t width = row.type.bytes;
  if (there % width == 0 && there / width == row.tokens) return absl::OkStatus();
  return Refuse(file.path(),
                absl::StrCat("the header tells of ", row.tokens, " tokens of ", width,
                             " bytes from byte ", row.offset, " on, but the file has ", there,
                             " bytes there; it was not copied or written whole"));
}

// Parses the header of a NumPy array, a literal of Python: {'descr': '<u2', 'shape': (5,), …}.
class NumpyHeader {
 public:
  explicit NumpyHeader(absl::string_view text) : rest_(text) {}

  // Returns what is wrong; empty: nothing.
  std::string Parse() {
    if (!Take('{')) return "expected a dictionary";
    while (!Take('}')) {
      absl::string_view key;
      if (!TakeText(key) || !Take(':')) return "expected names and values";
      if (key == "descr") {
        absl::string_view descr;
        if (!TakeText(descr)) return "expected an array of plain numbers, not of records";
        descr_ = std::string(descr);
      } else if (key == "shape") {
        if (!TakeShape()) return "expected a shape";
      } else if (key == "fortran_order") {
        if (!TakeWord("True") && !TakeWord("False")) return "expected True or False";
      } else {
        return absl::StrCat("unknown name ", Quote(key));
      }
      if (!Take(',')) {
        if (!Take('}')) return "expected a comma or the end";
        break;
      }
    }
    if (!absl::StripAsciiWhitespace(rest_).empty()) return "something follows the dictionary";
    if (descr_.empty() || !has_shape_) return "expected descr and shape";
    return "";
  }

  const std::string& descr() const { return descr_; }
  const std::vector<uint64_t>& shape() const { return shape_; }

 private:
  bool Take(char c) {
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    if (!absl::StartsWith(rest_, absl::string_view(&c, 1))) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool TakeWord(absl::string_view word) {
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    return absl::ConsumePrefix(&rest_, word);
  }

  // A text in quotes, none of which is in it.
  bool TakeText(absl::string_view& text) {
    const char quote = Take('\'') ? '\'' : Take('"') ? '"' : '\0';
    const size_t end = quote == '\0' ? absl::string_view::npos : rest_.find(quote);
    if (end == absl::string_view::npos) return false;
    text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return true;
  }

  bool TakeShape() {
    shape_.clear();
    has_shape_ = Take('(');
    while (has_shape_ && !Take(')')) {
      size_t digits = 0;
      rest_ = absl::StripLeadingAsciiWhitespace(rest_);
      while (digits < rest_.size() && absl::ascii_isdigit(rest_[digits])) ++digits;
      uint64_t size = 0;
      if (!absl::SimpleAtoi(rest_.substr(0, digits), &size)) return false;
      shape_.push_back(size);
      rest_.remove_prefix(digits);
      if (!Take(',')) return Take(')');
    }
    return has_shape_;
  }

  absl::string_view rest_;
  std::string descr_;
  bool has_shape_ = false;
  std::vector<uint64_t> shape_;
};

// Gives away tokens, each of which it checks, as documents.
class TokenTaker {
 public:
  TokenTaker(const std::string& path, TokenType type, const TokenRules& rules, TakeDocument take)
      : path_(path), type_(type), rules_(rules), take_(take) {}

  // Appends the tokens that lie at `offset` of the file to those that wait.
  absl::Status Add(absl::string_view bytes, uint64_t offset) {
    const size_t count = bytes.size() / type_.bytes;
    for (size_t i = 0; i < count; ++i) {
      // A number of 64 bits without a sign is no token if it were negative.
      const int64_t token = At(bytes, i);
      if (token < 0 || token >= rules_.vocabulary) {
        return Refuse(path_, absl::StrCat("the token at byte ", offset + i * type_.bytes, " is ",
                                          token, ", but the tokenizer has ", rules_.vocabulary,
                                          " tokens; name the one that the file was made with, or ",
                                          "the type of its tokens is another"));
      }
      tokens_.push_back(static_cast<int32_t>(token));
    }
    if (rules_.progress) rules_.progress(bytes.size());
    return absl::OkStatus();
  }

  // Gives away the tokens that wait, in documents that end with an end-of-text.
  absl::Status TakeTexts(bool at_end) {
    absl::Span<const int32_t> rest = tokens_;
    while (!rest.empty()) {
      const auto end = std::find(rest.begin(), rest.end(), rules_.end_of_text.value_or(-1));
      const bool found = end != rest.end();
      const size_t size = static_cast<size_t>(end - rest.begin()) + (found ? 1 : 0);
      MUSTER_RETURN_IF_ERROR(Give(rest.subspan(0, size), !found && !at_end));
      rest.remove_prefix(size);
    }
    tokens_.clear();
    return absl::OkStatus();
  }

  // Gives away the tokens that wait.
  absl::Status TakeAll(bool continues) {
    MUSTER_RETURN_IF_ERROR(Give(tokens_, continues));
    tokens_.clear();
    return absl::OkStatus();
  }

  size_t waiting() const { return tokens_.size(); }

 private:
  int64_t At(absl::string_view bytes, size_t i) const {
    switch (type_.bytes) {
      case 1:
        return type_.is_signed ? NumberAt<int8_t>(bytes, i) : NumberAt<uint8_t>(bytes, i);
      case 2:
        return type_.is_signed ? NumberAt<int16_t>(bytes, 2 * i) : NumberAt<uint16_t>(bytes, 2 * i);
      case 4:
        return type_.is_signed ? int64_t{NumberAt<int32_t>(bytes, 4 * i)}
                               : int64_t{NumberAt<uint32_t>(bytes, 4 * i)};
      default:
        return NumberAt<int64_t>(bytes, 8 * i);
    }
  }

  absl::Status Give(absl::Span<const int32_t> tokens, bool continues) {
    Document document;
    document.path = path_;
    document.tokens = tokens;
    document.continues = continues;
    return take_(document);
  }

  const std::string& path_;
  const TokenType type_;
  const TokenRules& rules_;
  const TakeDocument take_;
  std::vector<int32_t> tokens_;
};

// Reads a Megatron index: the documents' sequences, one after another.
class MegatronIndex {
 public:
  static absl::StatusOr<std::unique_ptr<MegatronIndex>> Open(const std::string& path) {
    auto index = std::make_unique<MegatronIndex>();
    MUSTER_ASSIGN_OR_RETURN(index->sizes_, WindowedFile::Open(path));
    MUSTER_ASSIGN_OR_RETURN(index->places_, WindowedFile::Open(path));
    MUSTER_ASSIGN_OR_RETURN(index->documents_, WindowedFile::Open(path));
    MUSTER_RETURN_IF_ERROR(index->ReadHeader(path));
    return index;
  }

  TokenType type() const { return type_; }
  uint64_t documents() const { return ends_ - 1; }

  // Returns the number of sequences before document `i`, which ends where document i + 1 begins.
  absl::StatusOr<uint64_t> Before(uint64_t i) { return Number<uint64_t>(*documents_, ends_at_, i); }

  struct Sequence {
    uint64_t offset = 0;
    uint64_t tokens = 0;
  };
  absl::StatusOr<Sequence> At(uint64_t i) {
    MUSTER_ASSIGN_OR_RETURN(const int32_t tokens, Number<int32_t>(*sizes_, kHeaderBytes, i));
    MUSTER_ASSIGN_OR_RETURN(const int64_t offset, Number<int64_t>(*places_, places_at_, i));
    if (tokens >= 0 && offset >= 0) {
      return Sequence{static_cast<uint64_t>(offset), static_cast<uint64_t>(tokens)};
    }
    return Refuse(sizes_->path(), absl::StrCat("sequence ", i, " has ", tokens, " tokens at byte ",
                                               offset, "; the index is damaged"));
  }

  uint64_t sequences() const { return sequences_; }

 private:
  static constexpr size_t kHeaderBytes = 34;

  absl::Status ReadHeader(const std::string& path) {
    const uint64_t size = sizes_->size();
    if (size < kHeaderBytes) return Refuse(path, "the index ends within its header");
    MUSTER_ASSIGN_OR_RETURN(const absl::string_view header, sizes_->Read(0, kHeaderBytes));
    if (!IsMegatronIndex(header)) return Refuse(path, "this is no index of Megatron's");
    if (const auto version = NumberAt<uint64_t>(header, 9); version != 1) {
      return Refuse(path,
                    absl::StrCat("the index has version ", version, " at byte 9, expected 1"));
    }
    const auto code = NumberAt<uint8_t>(header, 17);
    switch (code) {
      case 1:
        type_ = {1, false};
        break;
      case 2:
        type_ = {1, true};
        break;
      case 3:
        type_ = {2, true};
        break;
      case 4:
        type_ = {4, true};
        break;
      case 5:
        type_ = {8, true};
        break;
      case 8:
        type_ = {2, false};
        break;
      default:
        return Refuse(path, absl::StrCat("the index has type ", code,
                                         " at byte 17, which is no type of tokens"));
    }
    sequences_ = NumberAt<uint64_t>(header, 18);
    ends_ = NumberAt<uint64_t>(header, 26);
    const uint64_t rest = size - kHeaderBytes;
    if (sequences_ > rest / 12 || ends_ > rest / 8 || ends_ == 0 ||
        rest != 12 * sequences_ + 8 * ends_) {
      if (sequences_ <= rest / 13 && rest == 13 * sequences_ + 8 * ends_) {
        return Refuse(path, "the index has modes of several media; name data of text alone");
      }
      return Refuse(path, absl::StrCat("the index has ", size, " bytes, which do not fit the ",
                                       sequences_, " sequences and ", ends_,
                                       " ends of documents that its header tells of; it was not "
                                       "copied or written whole"));
    }
    places_at_ = kHeaderBytes + 4 * sequences_;
    ends_at_ = places_at_ + 8 * sequences_;
    return absl::OkStatus();
  }

  template <typename T>
  absl::StatusOr<T> Number(WindowedFile& window, uint64_t at, uint64_t i) {
    MUSTER_ASSIGN_OR_RETURN(const absl::string_view bytes,
                            window.Read(at + i * sizeof(T), sizeof(T)));
    return NumberAt<T>(bytes, 0);
  }

  // Each of the index's tables is read in order.
  std::unique_ptr<WindowedFile> sizes_;
  std::unique_ptr<WindowedFile> places_;
  std::unique_ptr<WindowedFile> documents_;
  TokenType type_;
  uint64_t sequences_ = 0;
  uint64_t ends_ = 0;
  uint64_t places_at_ = 0;
  uint64_t ends_at_ = 0;
};

// Gives away the tokens of a sequence.
absl::Status TakeSequence(WindowedFile& file, const MegatronIndex::Sequence& sequence, int width,
                          TokenTaker& taker) {
  for (uint64_t done = 0; done < sequence.tokens;) {
    const uint64_t count = std::min(kTokensAtOnce, sequence.tokens - done);
    const uint64_t offset = sequence.offset + done * width;
    MUSTER_ASSIGN_OR_RETURN(const absl::string_view bytes, file.Read(offset, count * width));
    MUSTER_RETURN_IF_ERROR(taker.Add(bytes, offset));
    done += count;
    if (taker.waiting() >= kTokensAtOnce) MUSTER_RETURN_IF_ERROR(taker.TakeAll(true));
  }
  return absl::OkStatus();
}

}  // namespace

std::optional<TokenType> TokenTypeNamed(absl::string_view name) {
  for (const int bytes : {1, 2, 4, 8}) {
    for (const bool is_signed : {false, true}) {
      if (NameOf({bytes, is_signed}) == name) return TokenType{bytes, is_signed};
    }
  }
  return std::nullopt;
}

std::string NameOf(TokenType type) {
  return absl::StrCat(type.is_signed ? "i" : "u", 8 * type.bytes);
}

bool IsLlmC(absl::string_view head) {
  if (head.size() < 4) return false;
  const auto magic = NumberAt<uint32_t>(head, 0);
  return magic == kLlmCMagics[0] || magic == kLlmCMagics[1] || magic == kLlmCQuestions;
}

bool IsNumpy(absl::string_view head) { return absl::StartsWith(head, kNumpyMagic); }

bool IsMegatronIndex(absl::string_view head) { return absl::StartsWith(head, kMegatronMagic); }

absl::StatusOr<TokenRow> LlmCRow(WindowedFile& file) {
  if (file.size() < kLlmCHeaderBytes) {
    return Refuse(file.path(), absl::StrCat("the file ends at byte ", file.size(),
                                            ", within the header of a shard of llm.c"));
  }
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view header, file.Read(0, kLlmCHeaderBytes));
  const auto magic = NumberAt<uint32_t>(header, 0);
  const auto version = NumberAt<int32_t>(header, 4);
  const auto tokens = NumberAt<int32_t>(header, 8);
  if (magic == kLlmCQuestions) {
    return Refuse(file.path(),
                  "this has llm.c's multiple-choice questions, which are not for training");
  }
  TokenRow row;
  row.type.bytes = magic == kLlmCMagics[0] ? 2 : 4;
  const int expected = magic == kLlmCMagics[0] ? 1 : 7;
  if (version != expected) {
    return Refuse(file.path(), absl::StrCat("the shard of llm.c has version ", version,
                                            " at byte 4, expected ", expected));
  }
  if (tokens < 0) {
    return Refuse(file.path(), absl::StrCat("the shard of llm.c has ", tokens,
                                            " tokens at byte 8; its header is damaged"));
  }
  row.offset = kLlmCHeaderBytes;
  row.tokens = static_cast<uint64_t>(tokens);
  MUSTER_RETURN_IF_ERROR(CheckSize(file, row));
  return row;
}

absl::StatusOr<TokenRow> NumpyRow(WindowedFile& file) {
  const auto short_file = [&file] {
    return Refuse(file.path(), absl::StrCat("the file ends at byte ", file.size(),
                                            ", within the header of a NumPy array"));
  };
  if (file.size() < 12) return short_file();
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view start, file.Read(0, 12));
  const auto version = NumberAt<uint8_t>(start, 6);
  if (version < 1 || version > 3) {
    return Refuse(file.path(), absl::StrCat("the NumPy array has version ", version,
                                            " at byte 6, expected 1 to 3"));
  }
  const size_t begin = version == 1 ? 10 : 12;
  const size_t size = version == 1 ? NumberAt<uint16_t>(start, 8) : NumberAt<uint32_t>(start, 8);
  if (size > kMostNumpyHeaderBytes) {
    return Refuse(file.path(),
                  absl::StrCat("the NumPy array has a header of ", size,
                               " bytes at byte 8, expected at most ", kMostNumpyHeaderBytes));
  }
  if (file.size() < begin + size) return short_file();
  MUSTER_ASSIGN_OR_RETURN(const absl::string_view text, file.Read(begin, size));
  NumpyHeader header(text);
  if (const std::string wrong = header.Parse(); !wrong.empty()) {
    return Refuse(file.path(),
                  absl::StrCat("the NumPy array's header, from byte ", begin, " on: ", wrong));
  }
  const std::string& descr = header.descr();
  const bool plain = descr.size() == 3 && (descr[1] == 'u' || descr[1] == 'i') &&
                     (descr[2] == '1' || descr[2] == '2' || descr[2] == '4' || descr[2] == '8');
  if (!plain || (descr[0] != '<' && descr[0] != '|')) {
    return Refuse(file.path(),
                  absl::StrCat("the NumPy array has numbers of type ", Quote(descr),
                               "; expected whole numbers, little-endian, such as '<u2': save it "
                               "again with .astype('<u4')"));
  }
  if (header.shape().size() != 1) {
    return Refuse(file.path(), absl::StrCat("the NumPy array has ", header.shape().size(),
                                            " dimensions, expected 1: save it again with "
                                            ".reshape(-1)"));
  }
  TokenRow row;
  row.type = {descr[2] - '0', descr[1] == 'i'};
  row.offset = begin + size;
  row.tokens = header.shape()[0];
  MUSTER_RETURN_IF_ERROR(CheckSize(file, row));
  return row;
}

absl::StatusOr<TokenRow> RawRow(const WindowedFile& file, TokenType type) {
  if (file.size() % type.bytes != 0) {
    return Refuse(file.path(), absl::StrCat("the file has ", file.size(),
                                            " bytes, which are no whole number of tokens of type ",
                                            NameOf(type)));
  }
  return TokenRow{type, 0, file.size() / type.bytes};
}

absl::Status ForEachInRow(WindowedFile& file, const TokenRow& row, const TokenRules& rules,
                          TakeDocument take) {
  TokenTaker taker(file.path(), row.type, rules, take);
  for (uint64_t done = 0; done < row.tokens;) {
    const uint64_t count = std::min(kTokensAtOnce, row.tokens - done);
    const uint64_t offset = row.offset + done * row.type.bytes;
    MUSTER_ASSIGN_OR_RETURN(const absl::string_view bytes,
                            file.Read(offset, count * row.type.bytes));
    MUSTER_RETURN_IF_ERROR(taker.Add(bytes, offset));
    done += count;
    MUSTER_RETURN_IF_ERROR(taker.TakeTexts(done == row.tokens));
  }
  return absl::OkStatus();
}

absl::Status ForEachInMegatron(const std::string& index_path, const std::string& tokens_path,
                               const TokenRules& rules, TakeDocument take) {
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<MegatronIndex> index,
                          MegatronIndex::Open(index_path));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<WindowedFile> file,
                          WindowedFile::Open(tokens_path));
  const uint64_t width = index->type().bytes;
  TokenTaker taker(file->path(), index->type(), rules, take);
  MUSTER_ASSIGN_OR_RETURN(uint64_t sequence, index->Before(0));
  if (sequence != 0) {
    return Refuse(index_path, absl::StrCat("the first document begins at sequence ", sequence,
                                           ", expected 0; the index is damaged"));
  }
  uint64_t taken = 0;
  for (uint64_t document = 0; document < index->documents(); ++document) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t end, index->Before(document + 1));
    if (end < sequence || end > index->sequences()) {
      return Refuse(index_path,
                    absl::StrCat("document ", document, " ends at sequence ", end, ", expected ",
                                 sequence, " to ", index->sequences(), "; the index is damaged"));
    }
    for (; sequence < end; ++sequence) {
      MUSTER_ASSIGN_OR_RETURN(const MegatronIndex::Sequence at, index->At(sequence));
      // Sequences follow one another, so no index makes more tokens than there are.
      if (at.offset != taken || at.tokens > (file->size() - taken) / width) {
        return Refuse(
            index_path,
            absl::StrCat("sequence ", sequence, " has ", at.tokens, " tokens at byte ", at.offset,
                         " of ", tokens_path, ", expected it at byte ", taken, " of ", file->size(),
                         "; one of the files was not copied or written whole"));
      }
      taken += at.tokens * width;
      MUSTER_RETURN_IF_ERROR(TakeSequence(*file, at, static_cast<int>(width), taker));
    }
    MUSTER_RETURN_IF_ERROR(taker.TakeAll(false));
  }
  if (sequence != index->sequences()) {
    return Refuse(index_path,
                  absl::StrCat("the documents end at sequence ", sequence, ", expected ",
                               index->sequences(), "; the index is damaged"));
  }
  if (taken == file->size()) return absl::OkStatus();
  return Refuse(tokens_path, absl::StrCat("the file has ", file->size(), " bytes, but ", index_path,
                                          " tells of ", taken));
}

}  // namespace muster
