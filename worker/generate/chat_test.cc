#include "worker/generate/chat.h"

#include <memory>
#include <string>
#include <vector>

#include "common/files/temp_folder.h"
#include "common/tokenizer/bpe/bpe_tokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kTemplate[] =
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}";
// The added token that ends a turn; the one before it begins a document.
constexpr int32_t kTurn = 257;

std::unique_ptr<const Tokenizer> BytesAndTurns() {
  BpeVocabulary vocabulary = BytesAsVocabulary();
  for (const char* text : {"<s>", "<turn>"}) {
    vocabulary.added.push_back({static_cast<int32_t>(vocabulary.tokens.size()), text});
    vocabulary.tokens.emplace_back(text);
  }
  vocabulary.rules.post_processor = R"({
    "type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [256], "tokens": ["<s>"]}}
  })";
  auto created = BpeTokenizer::Create(std::move(vocabulary));
  EXPECT_TRUE(created.ok()) << created.status();
  return *std::move(created);
}

// Says "ok", then the end of its turn, whatever it is told; remembers that.
class OkModel final : public NextTokenModel {
 public:
  explicit OkModel(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  int64_t context() const override { return 1000; }
  absl::StatusOr<absl::Span<const float>> Take(absl::Span<const int32_t> tokens) override {
    for (const int32_t token : tokens) held_ += std::string(tokenizer_.BytesOf(token));
    if (tokens.size() > 1) {
      told.push_back(held_);
      said_ = 0;
    }
    logits_.assign(258, 0);
    logits_[std::vector<int32_t>{'o', 'k', kTurn}[said_++]] = 100;
    return logits_;
  }
  void Forget() override { held_.clear(); }

  std::vector<std::string> told;

 private:
  const Tokenizer& tokenizer_;
  std::string held_;
  size_t said_ = 0;
  std::vector<float> logits_;
};

class ChatTest : public ::testing::Test {
 protected:
  ChatTest() {
    temp_.Write("chat_template.jinja", kTemplate);
    temp_.Write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "<turn>"})");
  }

  static std::string Say(Chat& chat, const std::string& message) {
    std::string answer;
    const auto made = chat.Say(message, [&answer](absl::string_view bytes) {
      answer.append(bytes.data(), bytes.size());
      return absl::OkStatus();
    });
    return made.ok() ? answer : std::string(made.status().message());
  }

  const TempFolder temp_;
  const std::unique_ptr<const Tokenizer> tokenizer_ = BytesAndTurns();
  OkModel model_{*tokenizer_};
};

// The answer ends with the turn, and what stands before a document comes once, from the template.
TEST_F(ChatTest, EachMessageIsToldWithAllBeforeIt) {
  auto chat = Chat::Open(temp_.path(), model_, *tokenizer_, {}, "be brief");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(Say(*chat, "Hi"), "ok");
  EXPECT_EQ(Say(*chat, "And?"), "ok");
  EXPECT_THAT(model_.told, ElementsAre("<s>[system]be brief<turn>[user]Hi<turn>[assistant]",
                                       "<s>[system]be brief<turn>[user]Hi<turn>[assistant]ok<turn>"
                                       "[user]And?<turn>[assistant]"));
}

TEST_F(ChatTest, AMessageWithoutAnAnswerIsForgotten) {
  temp_.Write("chat_template.jinja",
              "{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('refused') }}"
              "{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}");
  auto chat = Chat::Open(temp_.path(), model_, *tokenizer_, {}, "");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_THAT(Say(*chat, "no"), HasSubstr("refused"));
  EXPECT_EQ(Say(*chat, "Hi"), "ok");
  EXPECT_THAT(model_.told, ElementsAre("[user]Hi"));
}

TEST_F(ChatTest, WithoutATemplateTheErrorNamesTheFolder) {
  const TempFolder empty;
  const auto chat = Chat::Open(empty.path(), model_, *tokenizer_, {}, "");
  EXPECT_EQ(chat.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(chat.status().message()), HasSubstr(empty.path()));
}

}  // namespace
}  // namespace muster
