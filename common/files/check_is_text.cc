#include "common/files/check_is_text.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace muster {
namespace {

using std::literals::operator""sv;

// NUL bytes are looked for in this many bytes, as Git does.
constexpr size_t kHeadBytes = 8 << 10;
constexpr size_t kJsonLinesLookedAt = 20;

// The kind that a file seems to have, in words behind its name, and how to make text of it.
struct Finding {
  absl::string_view what;
  absl::string_view remedy;
};

struct Magic {
  std::string_view bytes;
  Finding finding;
};

constexpr absl::string_view kNameText = "name the text instead";

// UTF-32's mark begins with UTF-16's, and so stands before it. Strings end where a letter could
// continue an escape.
constexpr Magic kMagics[] = {
    {"\x1f\x8b"sv, {"is compressed by gzip", "unpack it first: gunzip < FILE > TEXT"}},
    {"\x28\xb5\x2f\xfd"sv, {"is compressed by zstd", "unpack it first: unzstd < FILE > TEXT"}},
    {"\xfd"
     "7zXZ\0"sv,
     {"is compressed by xz", "unpack it first: unxz < FILE > TEXT"}},
    {"PK\x03\x04"sv,
     {"is a zip archive or an office document (.docx, .xlsx, .odt)",
      "unpack it first (unzip FILE), or save the document as plain text"}},
    {"%PDF-"sv, {"is a PDF document", "extract its text first: pdftotext FILE TEXT"}},
    {"\x89PNG\r\n"sv, {"is a PNG image", kNameText}},
    {"\xff\xd8\xff"sv, {"is a JPEG image", kNameText}},
    {"\x7f"
     "ELF"sv,
     {"is a program or library (ELF)", kNameText}},
    {"MUSTERTK"sv,
     {"is a token file of `muster data tokenize`",
      "name it by itself as data.sequences.path, or name the text"}},
    {"\xff\xfe\0\0"sv, {"is text in UTF-32", "convert it: iconv -f UTF-32 -t UTF-8 FILE > TEXT"}},
    {"\0\0\xfe\xff"sv, {"is text in UTF-32", "convert it: iconv -f UTF-32 -t UTF-8 FILE > TEXT"}},
    {"\xff\xfe"sv, {"is text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE > TEXT"}},
    {"\xfe\xff"sv, {"is text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE > TEXT"}},
};

// "BZh" alone might begin a text: the level and the mark of a block, or of the end, follow it.
bool IsBzip2(absl::string_view bytes) {
  if (bytes.size() < 10 || !absl::StartsWith(bytes, "BZh")) return false;
  const absl::string_view mark = bytes.substr(4, 6);
  return bytes[3] >= '1' && bytes[3] <= '9' && (mark == "1AY&SY" || mark == "\x17rE8P\x90");
}

// The length of a JSON header, then the header.
bool IsSafetensors(absl::string_view bytes) {
  if (bytes.size() < 9 || bytes[8] != '{') return false;
  uint64_t header = 0;
  for (int i = 7; i >= 0; --i) header = header << 8 | static_cast<unsigned char>(bytes[i]);
  return header <= bytes.size() - 8;
}

bool IsParquet(absl::string_view bytes) {
  return bytes.size() >= 12 && absl::StartsWith(bytes, "PAR1") && absl::EndsWith(bytes, "PAR1");
}

// Returns whether every second byte from `first` on is mostly NUL, and the others are text's.
bool IsUnmarkedUtf16(absl::string_view head, size_t first) {
  size_t nuls = 0;
  for (size_t i = 0; i < head.size(); ++i) {
    if (i % 2 == first) {
      nuls += head[i] == '\0' ? 1 : 0;
    } else if (static_cast<unsigned char>(head[i]) < '\t') {
      return false;
    }
  }
  return nuls * 4 > head.size();
}

std::optional<Finding> FindWhatItIs(absl::string_view bytes) {
  for (const Magic& magic : kMagics) {
    const absl::string_view begin(magic.bytes.data(), magic.bytes.size());
    if (absl::StartsWith(bytes, begin)) return magic.finding;
  }
  if (IsBzip2(bytes)) {
    return Finding{"is compressed by bzip2", "unpack it first: bunzip2 < FILE > TEXT"};
  }
  if (IsSafetensors(bytes)) {
    return Finding{"has the weights of a model (safetensors)",
                   "name the text instead; `muster import` reads weights"};
  }
  if (IsParquet(bytes)) {
    return Finding{"is a Parquet table", "write its column of text to a file of text first"};
  }
  if (IsJsonLines(bytes)) {
    return Finding{"has JSON on each line",
                   "to learn the texts or chats in it, make a token file and name that: "
                   "muster data tokenize --data FILE --tokenizer TOKENIZER --out FILE.tokens; to "
                   "predict a field, make a table: jq -r '[.FIELD, .OTHER] | @csv' < FILE > "
                   "TABLE.csv"};
  }
  const absl::string_view head = bytes.substr(0, kHeadBytes);
  if (!absl::StrContains(head, '\0')) return std::nullopt;
  if (IsUnmarkedUtf16(head, 1)) {
    return Finding{"seems to be text in UTF-16 without a byte-order mark",
                   "convert it: iconv -f UTF-16LE -t UTF-8 FILE > TEXT"};
  }
  if (IsUnmarkedUtf16(head, 0)) {
    return Finding{"seems to be text in UTF-16 without a byte-order mark",
                   "convert it: iconv -f UTF-16BE -t UTF-8 FILE > TEXT"};
  }
  return Finding{"seems to be binary: there is a NUL byte in its first 8 KiB",
                 "name the text instead; if it is text with stray NUL bytes, remove them: "
                 "tr -d '\\000' < FILE > TEXT"};
}

}  // namespace

bool IsJsonLines(absl::string_view text) {
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  size_t looked_at = 0;
  while (!text.empty() && looked_at < kJsonLinesLookedAt) {
    const size_t end = text.find('\n');
    const bool whole = end != absl::string_view::npos;
    const absl::string_view line = absl::StripAsciiWhitespace(text.substr(0, end));
    text.remove_prefix(whole ? end + 1 : text.size());
    if (line.empty()) continue;
    const absl::string_view inside = absl::StripLeadingAsciiWhitespace(line.substr(1));
    const bool object = line.front() == '{' && absl::StartsWith(inside, "\"");
    const bool list = line.front() == '[' && absl::StartsWith(inside, "{");
    if (!object && !list) return false;
    if (whole && line.back() != (object ? '}' : ']')) return false;
    ++looked_at;
  }
  return looked_at > 0;
}

absl::Status CheckIsText(const std::string& path, absl::string_view bytes) {
  const std::optional<Finding> finding = FindWhatItIs(bytes);
  if (!finding.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("Expected plain text, but data file '", path, "' ",
                                                 finding->what, "; ", finding->remedy));
}

}  // namespace muster
