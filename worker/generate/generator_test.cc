#include "worker/generate/generator.h"

#include <string>
#include <vector>

#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "common/tokenizer/bpe/byte_tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Says that the byte after the last one follows, and remembers what it was given.
class AlphabetModel final : public NextTokenModel {
 public:
  explicit AlphabetModel(int64_t context, size_t rows = 256) : context_(context), logits_(rows) {}

  int64_t context() const override { return context_; }
  absl::StatusOr<absl::Span<const float>> Take(absl::Span<const int32_t> tokens) override {
    EXPECT_FALSE(tokens.empty());
    held_.insert(held_.end(), tokens.begin(), tokens.end());
    EXPECT_LE(static_cast<int64_t>(held_.size()), context_);
    calls.push_back(static_cast<int>(tokens.size()));
    seen.push_back(static_cast<int>(held_.size()));
    logits_.assign(logits_.size(), 0);
    if (next >= 0) {
      logits_[next] = 100;
    } else {
      logits_[(held_.back() + 1) % 256] = spread;
    }
    return logits_;
  }
  void Forget() override { held_.clear(); }

  std::vector<int> calls;
  std::vector<int> seen;
  // The one likely token; -1: the byte after the last.
  int next = -1;
  float spread = 100;

 private:
  const int64_t context_;
  std::vector<int32_t> held_;
  std::vector<float> logits_;
};

std::string TextOf(NextTokenModel& model, const Tokenizer& tokenizer, const std::string& prompt,
                   const GenerateOptions& options, int64_t* made = nullptr) {
  std::string text;
  const auto done = Generate(model, tokenizer, prompt, options, [&text](absl::string_view bytes) {
    text.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  });
  EXPECT_TRUE(done.ok()) << done.status();
  if (made != nullptr && done.ok()) *made = *done;
  return text;
}

std::unique_ptr<const BpeTokenizer> BytesAndEnd() {
  BpeVocabulary vocabulary = BytesAsVocabulary();
  vocabulary.tokens.emplace_back("<|endoftext|>");
  vocabulary.added = {{256, "<|endoftext|>"}};
  return *BpeTokenizer::Create(vocabulary);
}

TEST(GeneratorTest, ContinuesThePromptTokenByToken) {
  AlphabetModel model(100);
  int64_t made = -1;
  GenerateOptions options;
  options.max_tokens = 5;
  EXPECT_EQ(TextOf(model, ByteTokenizer(), "xab", options, &made), "cdefg");
  EXPECT_EQ(made, 5);
  // The prompt at once, then one at a time; the last token is not needed any more.
  EXPECT_THAT(model.calls, ElementsAre(3, 1, 1, 1, 1));
}

TEST(GeneratorTest, SeedsMakeTheText) {
  GenerateOptions options;
  options.max_tokens = 60;
  options.sampling.temperature = 1;
  const auto with_seed = [&](uint64_t seed) {
    AlphabetModel model(100);
    // Even among all tokens.
    model.spread = 0;
    options.seed = seed;
    return TextOf(model, ByteTokenizer(), "a", options);
  };
  EXPECT_EQ(with_seed(1), with_seed(1));
  EXPECT_NE(with_seed(1), with_seed(2));
}

TEST(GeneratorTest, GoesOnFromTheLaterHalfOfAFullContext) {
  AlphabetModel model(8);
  GenerateOptions options;
  options.max_tokens = 12;
  EXPECT_EQ(TextOf(model, ByteTokenizer(), "abc", options), "defghijklmno");
  EXPECT_THAT(model.seen, ElementsAre(3, 4, 5, 6, 7, 8, 4, 5, 6, 7, 8, 4));
  EXPECT_THAT(model.calls, ElementsAre(3, 1, 1, 1, 1, 1, 4, 1, 1, 1, 1, 4));
}

TEST(GeneratorTest, OfALongPromptTheEndCounts) {
  AlphabetModel model(8);
  GenerateOptions options;
  options.max_tokens = 2;
  EXPECT_EQ(TextOf(model, ByteTokenizer(), "abcdefghijk", options), "lm");
  EXPECT_THAT(model.seen, ElementsAre(4, 5));
  AlphabetModel exact(8);
  EXPECT_EQ(TextOf(exact, ByteTokenizer(), "abcdefgh", options), "ij");
  EXPECT_THAT(exact.seen, ElementsAre(8, 4));
  AlphabetModel tiny(1);
  EXPECT_EQ(TextOf(tiny, ByteTokenizer(), "ab", options), "cd");
}

TEST(GeneratorTest, StopsAtTheEndOfText) {
  const auto tokenizer = BytesAndEnd();
  AlphabetModel model(16, 257);
  model.next = 256;
  int64_t made = -1;
  EXPECT_EQ(TextOf(model, *tokenizer, "ab", {}, &made), "");
  EXPECT_EQ(made, 0);
  // And begins with it where there is no prompt.
  AlphabetModel other(16, 257);
  GenerateOptions options;
  options.max_tokens = 1;
  EXPECT_EQ(TextOf(other, *tokenizer, "", options), "\x01");
  EXPECT_THAT(other.calls, ElementsAre(1));
}

TEST(GeneratorTest, RowsWithoutATokenAreNeverDrawn) {
  AlphabetModel model(16, 300);
  model.next = 299;
  GenerateOptions options;
  options.max_tokens = 3;
  options.sampling.temperature = 0;
  EXPECT_EQ(TextOf(model, ByteTokenizer(), "a", options).size(), 3u);
}

TEST(GeneratorTest, ErrorsEndIt) {
  AlphabetModel model(8);
  const auto ignore = [](absl::string_view) { return absl::OkStatus(); };
  EXPECT_THAT(std::string(Generate(model, ByteTokenizer(), "", {}, ignore).status().message()),
              HasSubstr("the prompt is empty"));
  GenerateOptions options;
  options.max_tokens = -1;
  EXPECT_THAT(
      std::string(Generate(model, ByteTokenizer(), "a", options, ignore).status().message()),
      HasSubstr("max-tokens is -1"));
  options = {};
  options.sampling.top_p = 2;
  EXPECT_FALSE(Generate(model, ByteTokenizer(), "a", options, ignore).ok());
  int calls = 0;
  const auto closed = [&calls](absl::string_view) {
    return ++calls == 3 ? absl::UnavailableError("closed") : absl::OkStatus();
  };
  EXPECT_EQ(Generate(model, ByteTokenizer(), "a", {}, closed).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace muster
