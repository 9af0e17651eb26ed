#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/chat_template/values/filters.h"
#include "common/chat_template/values/json_text.h"
#include "common/chat_template/values/methods.h"
#include "common/chat_template/values/operators.h"
#include "common/chat_template/values/python_repr.h"
#include "common/chat_template/values/python_text.h"
#include "common/chat_template/values/value_tests.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

// Operators, filters, tests and methods, as far as they are Jinja's, are compared in
// tests/chat_template; here are edges, limits and errors.
class ValuesTest : public testing::Test {
 protected:
  static Value Of(const nlohmann::ordered_json& json) { return *ValueOfJson(json); }

  std::string Text(const absl::StatusOr<Value>& value) {
    if (!value.ok()) return std::string(value.status().message());
    const auto text = Str(*value, budget_);
    return text.ok() ? *text : std::string(text.status().message());
  }

  ChatTemplateLimits limits_;
  Budget budget_{limits_};
};

TEST_F(ValuesTest, PrintsFloatsAsPythonDoes) {
  EXPECT_EQ(FloatRepr(0.1), "0.1");
  EXPECT_EQ(FloatRepr(-3.0), "-3.0");
  EXPECT_EQ(FloatRepr(1e15), "1000000000000000.0");
  EXPECT_EQ(FloatRepr(1e16), "1e+16");
  EXPECT_EQ(FloatRepr(1.5e-5), "1.5e-05");
  EXPECT_EQ(FloatRepr(0.0001), "0.0001");
  EXPECT_EQ(FloatRepr(-0.0), "-0.0");
  EXPECT_EQ(FloatRepr(std::numeric_limits<double>::infinity()), "inf");
}

TEST_F(ValuesTest, PrintsStringsInListsAsPythonDoes) {
  EXPECT_EQ(Text(Of({"a'b", "a\"'", "\n\x01", "\u00a0é\u200b😀"})),
            "[\"a'b\", 'a\"\\'', '\\n\\x01', '\\xa0é\\u200b😀']");
}

TEST_F(ValuesTest, CountsCharacters) {
  EXPECT_EQ(CountCharacters("é😀x"), 3);
  EXPECT_EQ(Strip("\u3000 é \u2028"), "é");
  EXPECT_EQ(Strip("éxé", "é", Side::kRight), "éx");
  EXPECT_EQ(absl::StrJoin(SplitLines("a\r\nb\u2028c\n\nd"), "|"), "a|b|c||d");
  EXPECT_EQ(Replace("éa", "", "-", -1), "-é-a-");
  EXPECT_EQ(Replace("éa", "", "-", 1), "-éa");
  EXPECT_THAT(Upper("é").status().message(), HasSubstr("know ASCII alone"));
}

TEST_F(ValuesTest, RefusesIntegersPast64Bits) {
  const Value most(std::numeric_limits<int64_t>::max());
  const Value least(std::numeric_limits<int64_t>::min());
  const Value one(int64_t{1});
  EXPECT_THAT(Text(Arithmetic("+", most, one, budget_)), HasSubstr("too large"));
  EXPECT_THAT(Text(Arithmetic("-", least, one, budget_)), HasSubstr("too large"));
  EXPECT_THAT(Text(Arithmetic("*", most, most, budget_)), HasSubstr("too large"));
  EXPECT_THAT(Text(Arithmetic("//", least, Value(int64_t{-1}), budget_)), HasSubstr("too large"));
  EXPECT_EQ(Text(Arithmetic("%", least, Value(int64_t{-1}), budget_)), "0");
  EXPECT_THAT(Text(Arithmetic("**", Value(int64_t{3}), most, budget_)), HasSubstr("too large"));
  EXPECT_EQ(Text(Arithmetic("**", Value(int64_t{-1}), most, budget_)), "-1");
  EXPECT_THAT(Text(Signed("-", least)), HasSubstr("too large"));
  EXPECT_THAT(ValueOfJson(std::numeric_limits<uint64_t>::max()).status().message(),
              HasSubstr("past 9223372036854775807"));
}

TEST_F(ValuesTest, SlicesWithAnyBounds) {
  const Value list = Of({0, 1, 2, 3});
  const Value most(std::numeric_limits<int64_t>::max());
  const Value least(std::numeric_limits<int64_t>::min());
  const Value none;
  EXPECT_EQ(Text(Slice(list, least, most, none, budget_)), "[0, 1, 2, 3]");
  EXPECT_EQ(Text(Slice(list, most, least, Value(int64_t{-1}), budget_)), "[3, 2, 1, 0]");
  EXPECT_EQ(Text(Slice(list, none, none, most, budget_)), "[0]");
  EXPECT_EQ(Text(Slice(list, none, none, least, budget_)), "[3]");
  EXPECT_THAT(Text(Slice(list, none, none, Value(int64_t{0}), budget_)), HasSubstr("step"));
}

TEST_F(ValuesTest, BindsArguments) {
  const Arguments arguments{{Value(int64_t{1})}, {{"indent", Value(int64_t{2})}}};
  EXPECT_EQ((*arguments.Bind("f", {"a", "indent"}))[1], &arguments.named[0].second);
  EXPECT_THAT(arguments.Bind("f", {"a"}).status().message(), HasSubstr("no argument 'indent'"));
  EXPECT_THAT(arguments.Bind("f", {"indent"}).status().message(), HasSubstr("twice"));
  EXPECT_THAT(arguments.Bind("f", {}).status().message(), HasSubstr("at most 0"));
}

TEST_F(ValuesTest, NamesWhatIsUnknown) {
  EXPECT_THAT(Text(ApplyFilter("nope", Value(), {}, budget_)), HasSubstr("no filter 'nope'"));
  EXPECT_THAT(TestValue("nope", Value(), {}, budget_).status().message(),
              HasSubstr("no test 'nope'"));
  EXPECT_THAT(Text(CallMethod(Value(), "strip", {}, budget_)), HasSubstr("none has no method"));
  EXPECT_THAT(Text(CallMethod(Value::UndefinedAs("'x'"), "strip", {}, budget_)),
              HasSubstr("'x' is undefined"));
  const Arguments map{{Value(std::string("map"))}, {}};
  EXPECT_THAT(Text(ApplyFilter("map", Of({1}), map, budget_)), HasSubstr("map takes no 'map'"));
}

TEST_F(ValuesTest, SpendsBeforeItWorks) {
  ChatTemplateLimits small;
  small.max_steps = 100;
  Budget budget(small);
  const Value text(std::string(100'000, 'x'));
  EXPECT_FALSE(Str(text, budget).ok());
  EXPECT_THAT(budget.Spend().message(), HasSubstr("more than 100 steps"));
}

}  // namespace
}  // namespace muster
