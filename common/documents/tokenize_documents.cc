#include "common/documents/tokenize_documents.h"

#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/status_macros.h"

namespace muster {
namespace {

// Text that is encoded at once.
constexpr size_t kBatchBytes = size_t{4} << 20;

// A line's document: its text, then its tokens.
struct Line {
  std::string text;
  // The parts end here in the text, and later here among the tokens.
  std::vector<std::pair<size_t, Trained>> parts;
  std::vector<int32_t> tokens;
};

void Encode(const Tokenizer& tokenizer, Line& line) {
  size_t begin = 0;
  for (auto& [end, trained] : line.parts) {
    tokenizer.Encode(absl::string_view(line.text).substr(begin, end - begin),
                     [&line](absl::Span<const int32_t> tokens) {
                       line.tokens.insert(line.tokens.end(), tokens.begin(), tokens.end());
                     });
    begin = std::exchange(end, line.tokens.size());
  }
  const std::optional<int32_t> end_of_text = tokenizer.end_of_text();
  if (!end_of_text.has_value() || line.tokens.empty() || line.tokens.back() == *end_of_text) return;
  line.tokens.push_back(*end_of_text);
  ++line.parts.back().first;
}

// Collects lines, encodes them together, and writes them in order.
class Batches {
 public:
  Batches(const Tokenizer& tokenizer, int threads, TokenFileWriter& writer)
      : tokenizer_(tokenizer), threads_(threads), writer_(writer) {}

  absl::Status Add(absl::Span<const TextPart> parts) {
    Line& line = lines_.emplace_back();
    for (const TextPart& part : parts) {
      line.text.append(part.text.data(), part.text.size());
      line.parts.emplace_back(line.text.size(), part.trained);
    }
    bytes_ += line.text.size();
    return bytes_ < kBatchBytes ? absl::OkStatus() : Write();
  }

  absl::Status Write() {
    std::atomic<size_t> next = 0;
    const auto encode = [&] {
      for (size_t i = next++; i < lines_.size(); i = next++) Encode(tokenizer_, lines_[i]);
    };
    std::vector<std::thread> threads;
    for (int i = 1; i < threads_; ++i) threads.emplace_back(encode);
    encode();
    for (std::thread& thread : threads) thread.join();
    for (const Line& line : lines_) MUSTER_RETURN_IF_ERROR(WriteLine(line));
    lines_.clear();
    bytes_ = 0;
    return absl::OkStatus();
  }

 private:
  absl::Status WriteLine(const Line& line) {
    size_t begin = 0;
    for (const auto& [end, trained] : line.parts) {
      const auto tokens = absl::MakeConstSpan(line.tokens).subspan(begin, end - begin);
      MUSTER_RETURN_IF_ERROR(writer_.AddTokens(tokens, trained, begin == 0 ? line.text.size() : 0));
      begin = end;
    }
    return writer_.EndDocument();
  }

  const Tokenizer& tokenizer_;
  const int threads_;
  TokenFileWriter& writer_;
  std::vector<Line> lines_;
  size_t bytes_ = 0;
};

// Returns how many bytes tokens stand for; an end-of-text stands for none.
uint64_t TextBytes(const Tokenizer& tokenizer, absl::Span<const int32_t> tokens) {
  uint64_t bytes = 0;
  for (const int32_t token : tokens) {
    if (tokenizer.end_of_text() != token) bytes += tokenizer.BytesOf(token).size();
  }
  return bytes;
}

}  // namespace

absl::Status TokenizeDocuments(const DocumentSource& source, const DocumentOptions& options,
                               const Tokenizer& tokenizer, int threads, TokenFileWriter& writer) {
  DocumentOptions with_tokenizer = options;
  with_tokenizer.tokens.vocabulary = tokenizer.vocabulary();
  with_tokenizer.tokens.end_of_text = tokenizer.end_of_text();
  Batches batches(tokenizer, threads, writer);
  const auto take = [&](const Document& document) {
    if (document.line > 0) return batches.Add(document.parts);
    if (!document.parts.empty()) return writer.AddDocument(document.parts[0].text);
    MUSTER_RETURN_IF_ERROR(
        writer.AddTokens(document.tokens, Trained::kYes, TextBytes(tokenizer, document.tokens)));
    return document.continues ? absl::OkStatus() : writer.EndDocument();
  };
  MUSTER_RETURN_IF_ERROR(ForEachDocument(source, with_tokenizer, take));
  return batches.Write();
}

}  // namespace muster
