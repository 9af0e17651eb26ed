#include "common/chat_template/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

absl::StatusOr<RenderedChat> RenderChat(absl::string_view text, const Json& values,
                                        const ChatTemplateLimits& limits = {},
                                        const RenderOptions& options = {}) {
  const auto parsed = ChatTemplate::Parse(text, limits);
  if (!parsed.ok()) return parsed.status();
  return parsed->Render(values, options);
}

std::string TextOf(absl::string_view text, const Json& values = Json::object()) {
  const auto chat = RenderChat(text, values);
  return chat.ok() ? chat->text : absl::StrCat("error: ", chat.status().message());
}

std::string ErrorOf(absl::string_view text, const Json& values = Json::object(),
                    const ChatTemplateLimits& limits = {}) {
  const auto chat = RenderChat(text, values, limits);
  if (chat.ok()) return absl::StrCat("no error: ", chat->text);
  EXPECT_EQ(chat.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(chat.status().message());
}

TEST(ChatTemplateTest, RendersAChat) {
  const Json values = {
      {"messages",
       {{{"role", "user"}, {"content", "Hi"}}, {{"role", "assistant"}, {"content", "Hello"}}}},
      {"add_generation_prompt", true}};
  EXPECT_EQ(TextOf("{% for m in messages %}\n<{{ m.role }}>{{ m['content'] }}\n{% endfor %}\n"
                   "{% if add_generation_prompt %}<assistant>{% endif %}",
                   values),
            "<user>Hi\n<assistant>Hello\n<assistant>");
}

TEST(ChatTemplateTest, TellsWhatWasGenerated) {
  const auto parsed = ChatTemplate::Parse(
      "é{% generation %}ab{% endgeneration %}c{% generation %}"
      "{% endgeneration %}{% generation %}d{% endgeneration %}");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_TRUE(parsed->marks_generation());
  const auto chat = parsed->Render(Json::object());
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->text, "éabcd");
  ASSERT_EQ(chat->generated.size(), 2);
  EXPECT_EQ(chat->generated[0].begin, 2);
  EXPECT_EQ(chat->generated[0].end, 4);
  EXPECT_EQ(chat->generated[1].begin, 5);
  EXPECT_EQ(chat->generated[1].end, 6);
  EXPECT_FALSE(ChatTemplate::Parse("x")->marks_generation());
}

TEST(ChatTemplateTest, KnowsTheTimeOnlyIfItIsTold) {
  EXPECT_EQ(TextOf("{{ strftime_now is defined }}"), "False");
  EXPECT_THAT(ErrorOf("{{ strftime_now('%d') }}"), HasSubstr("'strftime_now' is undefined"));
  RenderOptions options;
  options.now = absl::UnixEpoch();
  const auto chat = RenderChat("{{ strftime_now('%d %b %Y') }}", Json::object(), {}, options);
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->text, "01 Jan 1970");
  EXPECT_FALSE(RenderChat("{{ strftime_now('%Q') }}", Json::object(), {}, options).ok());
}

TEST(ChatTemplateTest, TellsTheTemplatesOwnError) {
  EXPECT_EQ(ErrorOf("a\n{{ raise_exception('take ' ~ 'turns') }}"),
            "chat template, line 2, column 4: the template refuses this chat: take turns");
}

TEST(ChatTemplateTest, RefusesByNameLineAndColumnWhenItParses) {
  const auto refusal = [](absl::string_view text) {
    return std::string(ChatTemplate::Parse(text).status().message());
  };
  EXPECT_THAT(refusal("é {{ x | sort }}"), HasSubstr("line 1, column 10: no filter 'sort'"));
  EXPECT_THAT(refusal("\n{{ x is weird }}"), HasSubstr("line 2, column 9: no test 'weird'"));
  EXPECT_THAT(refusal("{{ x.format(1) }}"), HasSubstr("no method 'format'"));
  EXPECT_THAT(refusal("{{ cycle(1) }}"), HasSubstr("no macro 'cycle'"));
  EXPECT_THAT(refusal("{% include 'x' %}"), HasSubstr("no tag 'include'"));
  EXPECT_THAT(refusal("{% for x in y recursive %}{% endfor %}"), HasSubstr("recursive loops"));
  EXPECT_THAT(refusal("{% set x | trim %}{% endset %}"), HasSubstr("a filter on a set block"));
  EXPECT_THAT(refusal("{% macro m() %}{% generation %}{% endgeneration %}{% endmacro %}"),
              HasSubstr("'generation' is within a set, a macro"));
  EXPECT_THAT(refusal("{% for x in y %}{% if x %}"), HasSubstr("column 20: 'if' begins here"));
  EXPECT_THAT(refusal("{% break %}"), HasSubstr("in no for loop"));
  EXPECT_THAT(refusal("\xff"), HasSubstr("not UTF-8"));
}

TEST(ChatTemplateTest, BoundsTheTemplate) {
  ChatTemplateLimits limits;
  limits.max_template_bytes = 10;
  EXPECT_THAT(ErrorOf("01234567890", Json::object(), limits), HasSubstr("may have 10"));
  EXPECT_EQ(RenderChat("0123456789", Json::object(), limits)->text, "0123456789");
}

TEST(ChatTemplateTest, BoundsDepth) {
  const auto nested = [](int depth) {
    return absl::StrCat("{{ ", std::string(depth, '('), "1", std::string(depth, ')'), " }}");
  };
  EXPECT_EQ(TextOf(nested(150)), "1");
  EXPECT_THAT(ErrorOf(nested(100'000)), HasSubstr("more than 200 deep"));
  std::string nots = "{{ ";
  for (int i = 0; i < 30'000; ++i) nots += "not ";
  EXPECT_THAT(ErrorOf(nots + "1 }}"), HasSubstr("more than 200 deep"));
  std::string attributes = "{{ x";
  for (int i = 0; i < 30'000; ++i) attributes += ".a";
  EXPECT_THAT(ErrorOf(attributes + " }}"), HasSubstr("more than 200 deep"));
  std::string ifs;
  for (int i = 0; i < 10'000; ++i) ifs += "{% if 1 %}";
  EXPECT_THAT(ErrorOf(ifs), HasSubstr("more than 200 deep"));
  EXPECT_THAT(ErrorOf("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
              HasSubstr("do macros call themselves"));
  // A long sum is not deep.
  std::string sum = "{{ 0";
  for (int i = 0; i < 1000; ++i) sum += " + 1";
  EXPECT_EQ(TextOf(sum + " }}"), "1000");
}

TEST(ChatTemplateTest, BoundsTheDepthOfValues) {
  Json deep = Json::array();
  for (int i = 0; i < 100; ++i) deep = Json::array({deep});
  EXPECT_THAT(ErrorOf("", {{"x", deep}}), HasSubstr("more than 64 deep"));
  EXPECT_THAT(ErrorOf("{% set ns = namespace(x=[]) %}{% for i in range(100) %}"
                      "{% set ns.x = [ns.x] %}{% endfor %}"),
              HasSubstr("more than 64 deep"));
  EXPECT_THAT(ErrorOf("{% set ns = namespace() %}{% set ns.x = ns %}"),
              HasSubstr("cannot lie in a namespace"));
  EXPECT_THAT(ErrorOf("{% set ns = namespace() %}{% set x = [ns] %}"), HasSubstr("cannot lie"));
}

TEST(ChatTemplateTest, BoundsSteps) {
  ChatTemplateLimits limits;
  limits.max_steps = 1000;
  EXPECT_THAT(ErrorOf("{% for i in range(999) %}{% endfor %}", Json::object(), limits),
              HasSubstr("more than 1000 steps"));
  EXPECT_EQ(RenderChat("{% for i in range(9) %}{{ i }}{% endfor %}", Json::object(), limits)->text,
            "012345678");
}

TEST(ChatTemplateTest, BoundsTextAndMemory) {
  ChatTemplateLimits limits;
  limits.max_output_bytes = 100;
  EXPECT_THAT(ErrorOf("{% for i in range(20) %}123456{% endfor %}", Json::object(), limits),
              HasSubstr("longer than 100 bytes"));
  EXPECT_THAT(ErrorOf("{{ 'ab' * 51 }}", Json::object(), limits), HasSubstr("longer than 100"));
  // Twice as long, or as many, in every round.
  EXPECT_THAT(ErrorOf("{% set ns = namespace(x='ab') %}{% for i in range(60) %}"
                      "{% set ns.x = ns.x ~ ns.x %}{% endfor %}"),
              HasSubstr("longer than"));
  EXPECT_THAT(ErrorOf("{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
                      "{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}"),
              HasSubstr("steps"));
}

TEST(ChatTemplateTest, RefusesWhatIsNotAnObject) {
  EXPECT_THAT(ErrorOf("x", Json::array()), HasSubstr("JSON object"));
}

TEST(ChatTemplateTest, GoesThroughAFiltersItemsOnce) {
  const Json values = {{"l", {1, 2}}};
  EXPECT_THAT(ErrorOf("{% set x = l | map('string') %}{{ x | join }}{{ x | join }}", values),
              HasSubstr("make it a list"));
  EXPECT_EQ(TextOf("{% set x = l | map('string') | list %}{{ x | join }}{{ x | join }}", values),
            "1212");
}

}  // namespace
}  // namespace muster
