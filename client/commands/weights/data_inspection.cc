#include "client/commands/weights/data_inspection.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/documents/text_cutter.h"
#include "common/packing/whole_documents.h"
#include "common/text/utf8.h"

namespace muster {
namespace {

constexpr size_t kExamples = 3;
// So much of each example is shown.
constexpr size_t kShownBytes = 600;
// Padding is told of sequences of these lengths.
constexpr int64_t kContexts[] = {1'024, 4'096, 16'384};
constexpr size_t kTextAtOnce = size_t{1} << 18;
constexpr uint64_t kTokensAtOnce = uint64_t{1} << 20;

// Collects the first documents of data.
class Examples {
 public:
  explicit Examples(std::vector<ShownDocument>& examples) : examples_(examples) {}

  void Begin(std::string place) {
    if (begun_ || examples_.size() >= kExamples) return;
    begun_ = true;
    bytes_ = 0;
    cut_ = false;
    examples_.push_back({std::move(place), {}});
  }

  void AddText(absl::string_view text, bool learned) {
    if (!begun_ || cut_) return;
    const absl::string_view shown = CutUtf8(text, kShownBytes - bytes_);
    cut_ = shown.size() < text.size();
    bytes_ += shown.size();
    examples_.back().pieces.push_back({absl::StrCat(shown, cut_ ? " …" : ""), learned});
  }

  void AddTokens(const Tokenizer& tokenizer, absl::Span<const int32_t> tokens, bool learned) {
    if (!begun_ || cut_) return;
    std::string text;
    for (const int32_t token : tokens) {
      cut_ = bytes_ >= kShownBytes;
      if (cut_) break;
      const absl::string_view bytes = tokenizer.BytesOf(token);
      absl::StrAppend(&text, first_ ? "" : "|", bytes);
      first_ = false;
      bytes_ += bytes.size();
    }
    if (cut_) text += " …";
    examples_.back().pieces.push_back({std::move(text), learned});
  }

  void End() {
    begun_ = false;
    first_ = true;
  }

 private:
  std::vector<ShownDocument>& examples_;
  bool begun_ = false;
  bool cut_ = false;
  bool first_ = true;
  size_t bytes_ = 0;
};

std::string PlaceOf(const Document& document) {
  return document.line > 0 ? absl::StrCat(document.path, ":", document.line)
                           : std::string(document.path);
}

}  // namespace

absl::StatusOr<DataInspection> InspectDocuments(const DocumentSource& source,
                                                const DocumentOptions& options,
                                                const Tokenizer* tokenizer) {
  DocumentOptions read = options;
  read.tokens.vocabulary =
      tokenizer != nullptr ? tokenizer->vocabulary() : std::numeric_limits<int32_t>::max();
  if (tokenizer != nullptr) read.tokens.end_of_text = tokenizer->end_of_text();
  DataInspection found;
  Examples examples(found.examples);
  std::optional<TextCutter> cutter;
  if (tokenizer != nullptr) cutter.emplace(*tokenizer, kTextAtOnce, 0);
  const auto add = [&](absl::string_view text, TextStart start, bool learned) {
    tokenizer->Encode(text, start, [&](absl::Span<const int32_t> tokens) {
      found.tokens += tokens.size();
      found.learned_tokens += learned ? tokens.size() : 0;
      examples.AddTokens(*tokenizer, tokens, learned);
    });
    return absl::OkStatus();
  };
  const bool in_parts = source.form == DocumentSource::Form::kPackedText;
  const auto take = [&](const Document& document) {
    examples.Begin(PlaceOf(document));
    for (const TextPart& part : document.parts) {
      const bool learned = part.trained == Trained::kYes;
      found.text_bytes += part.text.size();
      found.learned_bytes += learned ? part.text.size() : 0;
      if (tokenizer == nullptr) {
        examples.AddText(part.text, learned);
      } else if (in_parts) {
        MUSTER_RETURN_IF_ERROR(cutter->Cut(document, [&](const TextCutter::Piece& piece) {
          return add(piece.text, piece.start, learned);
        }));
      } else {
        const bool first = part.text.data() == document.parts[0].text.data();
        MUSTER_RETURN_IF_ERROR(
            add(part.text, first ? document.start : TextStart::kWithin, learned));
      }
    }
    found.tokens += document.tokens.size();
    found.learned_tokens += document.tokens.size();
    if (tokenizer != nullptr && !document.tokens.empty()) {
      examples.AddTokens(*tokenizer, document.tokens, true);
    }
    if (document.continues) return absl::OkStatus();
    ++found.documents;
    examples.End();
    return absl::OkStatus();
  };
  MUSTER_RETURN_IF_ERROR(ForEachDocument(source, read, take));
  if (HasTokens(source.form) && tokenizer == nullptr) {
    found.documents = 0;
    found.examples.clear();
  }
  return found;
}

absl::StatusOr<DataInspection> InspectTokenFile(const std::string& path, const TokenFile& file) {
  DataInspection found;
  found.documents = file.document_ends().size();
  found.tokens = file.tokens();
  std::vector<int32_t> tokens;
  std::vector<uint8_t> trained;
  for (uint64_t first = 0; first < file.tokens(); first += kTokensAtOnce) {
    const uint64_t count = std::min(kTokensAtOnce, file.tokens() - first);
    tokens.clear();
    trained.clear();
    MUSTER_RETURN_IF_ERROR(file.Read(first, count, tokens));
    MUSTER_RETURN_IF_ERROR(file.ReadTrained(first, count, trained));
    found.learned_tokens += std::count(trained.begin(), trained.end(), 1);
  }
  const absl::Span<const uint64_t> ends = file.document_ends();
  for (const int64_t context : kContexts) {
    MUSTER_ASSIGN_OR_RETURN(const auto windows, WholeDocuments::Create(ends, context));
    if (windows->windows() == 0) continue;
    found.padding.push_back({context, windows->figures().PaddingShare(context)});
  }
  Examples examples(found.examples);
  uint64_t begin = 0;
  for (size_t i = 0; i < std::min(kExamples, std::max<size_t>(ends.size(), 1)); ++i) {
    const uint64_t end = ends.empty() ? file.tokens() : ends[i];
    const uint64_t count = std::min<uint64_t>(end - begin, kShownBytes);
    tokens.clear();
    trained.clear();
    MUSTER_RETURN_IF_ERROR(file.Read(begin, count, tokens));
    MUSTER_RETURN_IF_ERROR(file.ReadTrained(begin, count, trained));
    examples.Begin(ends.empty() ? path : absl::StrCat(path, ", document ", i + 1));
    for (size_t at = 0; at < tokens.size();) {
      const auto run = std::find(trained.begin() + at, trained.end(), trained[at] ^ 1);
      const size_t until = static_cast<size_t>(run - trained.begin());
      examples.AddTokens(file.tokenizer(), absl::MakeConstSpan(tokens).subspan(at, until - at),
                         trained[at] == 1);
      at = until;
    }
    examples.End();
    begin = end;
  }
  return found;
}

}  // namespace muster
