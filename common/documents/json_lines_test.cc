#include "common/documents/json_lines.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/compression/packed_for_testing.h"
#include "common/documents/chat_documents_for_testing.h"
#include "common/documents/line_reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kTurns[] =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

class JsonLinesTest : public ChatDocumentsTest {
 protected:
  // Returns what a file of these bytes gives: "LINE:" and the parts, those that are learned in
  // brackets; or the error.
  std::vector<std::string> Documents(const std::string& bytes) const {
    std::vector<std::string> documents;
    const std::string path = folder_.Write("d.jsonl", bytes);
    const absl::Status status = ForEachJsonLine(path, options_, [&](const Document& document) {
      EXPECT_EQ(document.path, path);
      std::string& text = documents.emplace_back(absl::StrCat(document.line, ":"));
      for (const TextPart& part : document.parts) {
        EXPECT_FALSE(part.text.empty());
        const bool learned = part.trained == Trained::kYes;
        absl::StrAppend(&text, learned ? "[" : "", part.text, learned ? "]" : "");
      }
      return absl::OkStatus();
    });
    if (!status.ok()) documents.emplace_back(status.message());
    return documents;
  }

  std::string Refusal(const std::string& bytes) const {
    const std::vector<std::string> documents = Documents(bytes);
    return documents.empty() ? "no documents" : documents.back();
  }
};

TEST_F(JsonLinesTest, TextsAreLearnedWhole) {
  const std::string bytes =
      "\xef\xbb\xbf{\"text\": \"one \\u00e9\", \"meta\": {\"a\": [1]}}\r\n\n  \n{\"text\": \"\"}\n"
      "{\"id\": 7, \"text\": \"two\\nlines\"}";
  const auto expected = ElementsAre("1:[one \u00e9]", "5:[two\nlines]");
  EXPECT_THAT(Documents(bytes), expected);
  EXPECT_THAT(Documents(Gzip(bytes)), expected);
  EXPECT_THAT(Documents(Zstd(bytes)), expected);
  EXPECT_THAT(Documents(""), ElementsAre());
}

TEST_F(JsonLinesTest, AFieldMayBeNamed) {
  const std::string bytes =
      "{\"text\": \"a\", \"body\": \"b\", \"prompt\": \"p\", \"completion\": "
      "\"c\"}\n";
  EXPECT_THAT(Refusal(bytes), AllOf(HasSubstr("d.jsonl:1: the line has several documents: prompt, "
                                              "text; name the field"),
                                    HasSubstr("--field")));
  options_.field = "body";
  EXPECT_THAT(Documents(bytes), ElementsAre("1:[b]"));
  options_.field = "none";
  EXPECT_THAT(Refusal(bytes), AllOf(HasSubstr("d.jsonl:1: the line has no field 'none'"),
                                    HasSubstr("'body', 'completion', 'prompt', 'text'")));
}

TEST_F(JsonLinesTest, OfAPromptTheCompletionIsLearned) {
  EXPECT_THAT(Documents("{\"prompt\": \"2+2=\", \"completion\": \"4\"}\n"),
              ElementsAre("1:2+2=[4]"));
  EXPECT_THAT(Refusal("{\"prompt\": \"a\", \"completion\": \"b\"}\n"
                      "{\"prompt\": \"\", \"completion\": \"b\"}\n"),
              HasSubstr("d.jsonl:2: the prompt is empty, so all of the line would be learned"));
  EXPECT_THAT(Refusal("{\"prompt\": \"a\", \"completion\": \"\"}\n"),
              HasSubstr("d.jsonl:1: the completion is empty, so there is nothing to learn"));
}

constexpr char kChat[] =
    R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"},)"
    R"( {"role": "user", "content": "2?"}, {"role": "assistant", "content": "3"}]})"
    "\n";

TEST_F(JsonLinesTest, OfAChatTheAssistantsTurnsAreLearnedWithTheirEnds) {
  UseTemplate(kTurns);
  EXPECT_THAT(Documents(kChat),
              ElementsAre("1:<user>Hi</s><assistant>[Ho</s>]<user>2?</s><assistant>[3</s>]"));
  const auto one = ElementsAre("1:<user>Hi</s><assistant>[Ho</s>]");
  EXPECT_THAT(Documents(R"([{"role": "user", "content": "Hi"},)"
                        R"( {"role": "assistant", "content": "Ho"}])"),
              one);
  EXPECT_THAT(Documents(R"({"conversations": [{"from": "human", "value": "Hi"},)"
                        R"( {"from": "gpt", "value": "Ho"}], "id": 3})"),
              one);
  options_.field = "dialog";
  EXPECT_THAT(Documents(R"({"dialog": [{"role": "user", "content": "Hi"},)"
                        R"( {"role": "assistant", "content": "Ho"}], "text": "x"})"),
              one);
}

TEST_F(JsonLinesTest, ATemplateThatMarksTurnsSaysWhatIsLearned) {
  UseTemplate(
      "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}"
      "{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}</s>{% endfor %}");
  EXPECT_THAT(Documents(kChat),
              ElementsAre("1:<user>Hi</s><assistant>[Ho]</s><user>2?</s><assistant>[3]</s>"));
}

TEST_F(JsonLinesTest, ToolsGoToTheTemplateInTheirOrderAndOtherFieldsDoNot) {
  UseTemplate("{{ tools | tojson }}{{ thinking }}{{ id }}" + std::string(kTurns));
  EXPECT_THAT(Documents(R"({"id": 1, "tools": [{"b": 1, "a": 2}], "chat_template_kwargs":)"
                        R"( {"thinking": "on"}, "messages": [{"role": "user", "content": "u"},)"
                        R"( {"role": "assistant", "content": "a"}]})"),
              ElementsAre("1:[{\"b\": 1, \"a\": 2}]on<user>u</s><assistant>[a</s>]"));
}

TEST_F(JsonLinesTest, ChatsInWhichNothingOrEverythingIsLearnedAreRefused) {
  UseTemplate(kTurns);
  EXPECT_THAT(Refusal(absl::StrCat(kChat, R"({"messages": [{"role": "user", "content": "x"}]})")),
              HasSubstr("d.jsonl:2: the chat has nothing to learn"));
  UseTemplate("{% for m in messages %}{{ m.content }}{% endfor %}");
  EXPECT_THAT(Refusal(R"({"messages": [{"role": "assistant", "content": "x"}]})"),
              HasSubstr("d.jsonl:1: all of the chat would be learned"));
}

TEST_F(JsonLinesTest, TurnsThatCannotBeToldAreNamed) {
  // As templates do that leave out the thoughts of earlier turns.
  UseTemplate(
      "{% for m in messages %}<{{ m.role }}>{% if loop.last %}(thought){% endif %}{{ m.content }}"
      "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}");
  EXPECT_THAT(Refusal(kChat),
              AllOf(HasSubstr("d.jsonl:1: the turn of the assistant in message 2 cannot be told"),
                    HasSubstr("{% generation %}")));
  UseTemplate("{{ raise_exception('only ' ~ messages | length) }}");
  EXPECT_THAT(Refusal(kChat), HasSubstr("d.jsonl:1: "));
  EXPECT_THAT(Refusal(kChat), HasSubstr("only 4"));
}

TEST_F(JsonLinesTest, WithoutATemplateChatsAreShownOrRefused) {
  EXPECT_THAT(Documents(kChat),
              ElementsAre("1:user: Hi\nassistant: [Ho]\nuser: 2?\nassistant: [3]"));
  options_.why_no_template = absl::NotFoundError("name --model");
  EXPECT_THAT(Refusal(kChat), EndsWith("d.jsonl:1: name --model"));
}

TEST_F(JsonLinesTest, LinesAreRefusedByTheirNumber) {
  const std::string good = "{\"text\": \"a\"}\n";
  EXPECT_THAT(Refusal(good + "\n{\"text\": \"b\"\n"), HasSubstr("d.jsonl:3 is not JSON"));
  EXPECT_THAT(Refusal(good + "{\"text\": \"b"), AllOf(HasSubstr("d.jsonl:2 is not JSON"),
                                                      EndsWith("(the last line, without an end)")));
  EXPECT_THAT(Refusal(good + "{\"text\": \"\xff\"}\n"),
              HasSubstr("d.jsonl:2: the line is not UTF-8"));
  EXPECT_THAT(Refusal(good + "{\"text\": \"\\ud800\"}\n"), HasSubstr("d.jsonl:2 is not JSON"));
  EXPECT_THAT(Refusal(good + "{\"text\": 3}\n"),
              HasSubstr("d.jsonl:2: the line has no text 'text'"));
  EXPECT_THAT(Refusal(good + "[1]\n"), HasSubstr("d.jsonl:2: the line has no text 'text'"));
  EXPECT_THAT(Refusal(good + "{\"prompt\": \"a\", \"completion\": \"b\"}\n"),
              HasSubstr("d.jsonl:2: the line has no text 'text'"));
  EXPECT_THAT(Refusal("7\n"), HasSubstr("d.jsonl:1: the line is a JSON number"));
  EXPECT_THAT(Refusal("{\"evil\\u001b[2J\": 1}\n"),
              AllOf(HasSubstr("d.jsonl:1: the line has none"), HasSubstr("\\x1b[2J")));
  EXPECT_THAT(Refusal(std::string(70, '[') + std::string(70, ']')),
              HasSubstr("d.jsonl:1 has values 70 levels deep"));
  EXPECT_THAT(Refusal("[{\"role\": 1}]"), HasSubstr("d.jsonl:1: message 1 has no \"role\""));
  EXPECT_THAT(Refusal("[]"), HasSubstr("the chat has no messages"));
  EXPECT_THAT(Refusal("[{\"from\": \"narrator\", \"value\": \"x\"}]"),
              HasSubstr("message 1 is from 'narrator'; expected human, gpt, system or tool"));
  EXPECT_THAT(Refusal(absl::StrCat(kChat, "{\"messages\": \"no list\"}\n")),
              HasSubstr("d.jsonl:2: the line has no list 'messages'"));
}

TEST_F(JsonLinesTest, LongLinesAreReadUpToTheLimit) {
  const std::string longest(3 << 20, 'x');
  const std::string bytes = absl::StrCat("{\"text\": \"", longest, "\"}\n{\"text\": \"b\"}\n");
  EXPECT_THAT(Documents(bytes), ElementsAre(absl::StrCat("1:[", longest, "]"), "2:[b]"));
  // A few KiB unpack to more than memory should take.
  EXPECT_THAT(Refusal(Zstd("{\"text\": \"a\"}\n" + std::string(2 * kMostLineBytes, '['))),
              HasSubstr("d.jsonl:2: the line has more than 32 MiB"));
  const auto of_bytes = [](size_t bytes) {
    return absl::StrCat("{\"text\": \"", std::string(bytes - 12, 'x'), "\"}");
  };
  EXPECT_THAT(Refusal(absl::StrCat("{\"text\": \"a\"}\n", of_bytes(kMostLineBytes + 1), "\n")),
              HasSubstr("d.jsonl:2: the line has more than 32 MiB"));
  EXPECT_THAT(Refusal(of_bytes(kMostLineBytes + 1)),
              HasSubstr("d.jsonl:1: the line has more than 32 MiB"));
}

TEST_F(JsonLinesTest, FilesThatEndEarlyAreNamed) {
  std::string bytes;
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&bytes, "{\"text\": \"", i * 7919, "\"}\n");
  for (const std::string& packed : {Gzip(bytes), Zstd(bytes)}) {
    EXPECT_THAT(Refusal(packed.substr(0, packed.size() / 2)),
                HasSubstr("d.jsonl is a compressed file that ends early"));
  }
}

TEST_F(JsonLinesTest, ProgressIsTheFiles) {
  uint64_t read = 0;
  options_.progress = [&read](uint64_t bytes) { read += bytes; };
  const std::string packed = Gzip("{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
  Documents(packed);
  EXPECT_EQ(read, packed.size());
}

}  // namespace
}  // namespace muster
