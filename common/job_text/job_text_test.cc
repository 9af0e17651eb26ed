// The three notations of a job, and what becomes of their values.
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/message_fingerprint.h"
#include "common/job_text/complete_assignment.h"
#include "common/job_text/fill_message.h"
#include "common/job_text/parse_json_text.h"
#include "common/job_text/parse_textproto.h"
#include "common/job_text/parse_yaml.h"
#include "common/job_text/print_yaml.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

absl::Status Fill(absl::StatusOr<TextNode> root, v1::JobSpec& spec) {
  spec.Clear();
  if (!root.ok()) return root.status();
  return FillMessage(*root, "job", spec);
}

absl::Status Textproto(const std::string& text, v1::JobSpec& spec) {
  return Fill(ParseTextproto(text, "job"), spec);
}
absl::Status Json(const std::string& text, v1::JobSpec& spec) {
  return Fill(ParseJsonText(text, "job"), spec);
}
absl::Status Yaml(const std::string& text, v1::JobSpec& spec) {
  return Fill(ParseYaml(text, "job"), spec);
}

std::string ErrorOf(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}
std::string TextprotoError(const std::string& text) {
  v1::JobSpec spec;
  return ErrorOf(Textproto(text, spec));
}
std::string JsonError(const std::string& text) {
  v1::JobSpec spec;
  return ErrorOf(Json(text, spec));
}
std::string YamlError(const std::string& text) {
  v1::JobSpec spec;
  return ErrorOf(Yaml(text, spec));
}

constexpr char kTextproto[] = R"(
# A job with a value of each type.
name: "a \"b\"\n" 'c'   # two pieces
seed: 0x10;
model { mlp { hidden: 256 hidden: 0020, hidden: [ 8, 4 ] classes: 10 } }
data: < csv { path: "/d.csv" label: "y" numeric: ["a", 'b'] no_header: true } holdout: .25 >
optimizer { name: "adam" learning_rate: 1.5e-3f beta1: 0 weight_decay: -1 }
update { dense: ALL_REDUCE staleness_bound: -3 block_bytes: 4096 unlimited_staleness: false }
stop { epochs: 2 target: inf }
validation {}
)";

constexpr char kYaml[] = R"(
# A job with a value of each type.
name: "a \"b\"\nc"
seed: 16
model:
  mlp: {hidden: [256, 16, 8, 4], classes: 10}
data:
  csv:
    path: /d.csv
    label: y          # a text, whatever YAML takes it for
    numeric: [a, b]
    no_header: yes
  holdout: .25
optimizer: {name: adam, learning_rate: 1.5e-3, beta1: 0, weight_decay: -1}
update: {dense: ALL_REDUCE, staleness_bound: -3, block_bytes: 4096, unlimited_staleness: off}
stop:
  epochs: 2
  target: inf
validation:
)";

constexpr char kJson[] = R"({"name": "a \"b\"\nc", "seed": "16",
  "model": {"mlp": {"hidden": [256, 16, 8, 4], "classes": 10}},
  "data": {"csv": {"path": "/d.csv", "label": "y", "numeric": ["a", "b"], "noHeader": true},
           "holdout": 0.25},
  "optimizer": {"name": "adam", "learningRate": 1.5e-3, "beta1": 0, "weight_decay": -1},
  "update": {"dense": "ALL_REDUCE", "stalenessBound": -3, "block_bytes": 4096,
             "unlimitedStaleness": false, "sparse": null},
  "stop": {"epochs": 2.0, "target": "inf"}, "validation": {}, "clipping": null})";

TEST(JobTextTest, AllNotationsMakeTheMessageThatProtobufMakesOfItsOwn) {
  v1::JobSpec expected;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kTextproto, &expected));
  v1::JobSpec spec;
  ASSERT_TRUE(Textproto(kTextproto, spec).ok()) << Textproto(kTextproto, spec);
  EXPECT_EQ(spec.DebugString(), expected.DebugString());
  ASSERT_TRUE(Yaml(kYaml, spec).ok()) << Yaml(kYaml, spec);
  EXPECT_EQ(spec.DebugString(), expected.DebugString());
  ASSERT_TRUE(Json(kJson, spec).ok()) << Json(kJson, spec);
  EXPECT_EQ(spec.DebugString(), expected.DebugString());
}

TEST(JobTextTest, JsonThatProtobufWritesIsRead) {
  v1::JobSpec expected, spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kTextproto, &expected));
  expected.set_name("\xf0\x9f\x98\x80 \x01 \\\"");
  expected.mutable_stop()->set_target(0.1);
  expected.mutable_data()->set_holdout(1e-300);
  std::string json;
  ASSERT_TRUE(google::protobuf::util::MessageToJsonString(expected, &json).ok());
  ASSERT_TRUE(Json(json, spec).ok()) << Json(json, spec);
  EXPECT_EQ(spec.DebugString(), expected.DebugString());
  ASSERT_TRUE(Json("{\"name\": \"\\ud83d\\ude00 \\u0001 \\\\\\\"\"}", spec).ok());
  EXPECT_EQ(spec.name(), expected.name());
}

TEST(JobTextTest, WhatPrintYamlWritesIsReadBackToTheSame) {
  v1::JobSpec expected, spec;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kTextproto, &expected));
  expected.mutable_data()->set_holdout(0.1);
  expected.mutable_optimizer()->set_learning_rate(3e-4f);
  for (const char* name :
       {"no", "1e-3", "a: b", "- x", "#", "", "\xc3\xa9", "~", "null", "a b", "*a",
        "/tmp/a-b_c.txt", "@", "\t", "\xf0\x9f\x98\x80", "'", "{}", "0x10"}) {
    expected.set_name(name);
    const std::string yaml = PrintYaml(expected, {{"data.csv.label", "guessed\nby its name"}});
    ASSERT_TRUE(Yaml(yaml, spec).ok()) << yaml << Yaml(yaml, spec);
    EXPECT_EQ(spec.SerializeAsString(), expected.SerializeAsString()) << yaml;
    EXPECT_THAT(yaml, AllOf(HasSubstr("holdout: 0.1\n"), HasSubstr("learning_rate: 3e-04\n"),
                            HasSubstr("    # guessed\n    # by its name\n    label: \"y\"\n"),
                            HasSubstr("hidden: [256, 16, 8, 4]\n"), HasSubstr("validation: {}")));
  }
}

TEST(JobTextTest, AMapsNamesAreWrittenAsFieldsAre) {
  const std::string yaml = "labels:\n  run: 3\n  a.b/c: no\n  \"y\": \"a: b\"\n  team:\n";
  v1::JobSpec spec, other;
  ASSERT_TRUE(Yaml(yaml, spec).ok()) << Yaml(yaml, spec);
  const std::map<std::string, std::string> labels(spec.labels().begin(), spec.labels().end());
  const std::map<std::string, std::string> expected = {
      {"run", "3"}, {"a.b/c", "no"}, {"y", "a: b"}, {"team", ""}};
  EXPECT_EQ(labels, expected);

  const auto same = [&](const absl::Status& status) {
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(FingerprintOf(other), FingerprintOf(spec)) << other.DebugString();
  };
  same(Yaml(PrintYaml(spec), other));
  std::string text;
  ASSERT_TRUE(google::protobuf::TextFormat::PrintToString(spec, &text));
  same(Textproto(text, other));
  text.clear();
  ASSERT_TRUE(google::protobuf::util::MessageToJsonString(spec, &text).ok());
  same(Json(text, other));
  ASSERT_TRUE(Textproto("labels: [{ key: 'a' value: 'b' }, { key: 'c' }]", other).ok());
  EXPECT_EQ(other.labels().at("a"), "b");
  EXPECT_EQ(other.labels_size(), 2);

  EXPECT_THAT(YamlError("labels: vision"), HasSubstr("expected names with values"));
  EXPECT_THAT(YamlError("labels: [{key: a, value: b}]"), HasSubstr("expected names with values"));
  EXPECT_THAT(YamlError("labels: {team: [a]}"),
              HasSubstr("job:1:16: labels.team is a list; expected one value"));
  EXPECT_THAT(YamlError("labels: {a: 1, a: 2}"), HasSubstr("\"a\" was given in line 1 already"));
  EXPECT_THAT(YamlError("value: 1"), HasSubstr("a job has no field \"value\"; it has"));
}

TEST(JobTextTest, PrintYamlBreaksLongLists) {
  v1::JobSpec expected, spec;
  for (int i = 0; i < 40; ++i) {
    expected.mutable_data()->mutable_csv()->add_numeric(absl::StrCat("column ", i, ", ", i * i));
  }
  const std::string yaml = PrintYaml(expected);
  for (const absl::string_view line : absl::StrSplit(yaml, '\n')) EXPECT_LE(line.size(), 80);
  ASSERT_TRUE(Yaml(yaml, spec).ok()) << yaml << Yaml(yaml, spec);
  EXPECT_EQ(spec.SerializeAsString(), expected.SerializeAsString());
}

TEST(JobTextTest, SizesHaveUnitsInAllNotations) {
  v1::JobSpec spec;
  for (const auto& [text, bytes] :
       std::vector<std::pair<std::string, uint64_t>>{{"1GiB", uint64_t{1} << 30},
                                                     {"512 MiB", uint64_t{512} << 20},
                                                     {"64k", 65536},
                                                     {"64 kb", 65536},
                                                     {"2T", uint64_t{2} << 40},
                                                     {"4096", 4096},
                                                     {"4096 B", 4096},
                                                     {"1e6", 1000000}}) {
    for (const std::string& written :
         {absl::StrCat("update { dense: ALL_REDUCE block_bytes: ", text, " partitions: 3 }"),
          absl::StrCat("update { block_bytes: \"", text, "\" partitions: 3 }"),
          absl::StrCat("update { partitions: 3 block_bytes: ", text, "}")}) {
      ASSERT_TRUE(Textproto(written, spec).ok()) << written << Textproto(written, spec);
      EXPECT_EQ(spec.update().block_bytes(), bytes) << written;
      EXPECT_EQ(spec.update().partitions(), 3) << written;
    }
    ASSERT_TRUE(Yaml(absl::StrCat("sparse_tables: {cache_bytes: ", text, "}"), spec).ok()) << text;
    EXPECT_EQ(spec.sparse_tables().cache_bytes(), bytes) << text;
    ASSERT_TRUE(
        Json(absl::StrCat("{\"sparseTables\": {\"cacheBytes\": \"", text, "\"}}"), spec).ok());
    EXPECT_EQ(spec.sparse_tables().cache_bytes(), bytes) << text;
  }
  for (const char* text : {"1 GiX", "-1", "many", "1.5", "99999999TiB", "18446744073709551616"}) {
    EXPECT_THAT(YamlError(absl::StrCat("update:\n  block_bytes: ", text)),
                AllOf(HasSubstr("job:2:16: update.block_bytes is \""),
                      HasSubstr("expected a number of bytes, such as 65536, 64KiB or 1GiB")))
        << text;
  }
  // Only fields of bytes have them.
  EXPECT_THAT(TextprotoError("workers: 2k"), HasSubstr("job:1:10: workers is \"2k\"; expected a"));
}

TEST(JobTextTest, EnumsAreReadInAnyCase) {
  v1::JobSpec spec;
  for (const char* name : {"all_reduce", "ALL_REDUCE", "all-reduce", "All_Reduce", "2"}) {
    ASSERT_TRUE(Yaml(absl::StrCat("update: {dense: ", name, "}"), spec).ok()) << name;
    EXPECT_EQ(spec.update().dense(), v1::UpdateSpec::ALL_REDUCE);
    ASSERT_TRUE(Json(absl::StrCat("{\"update\": {\"dense\": \"", name, "\"}}"), spec).ok());
    EXPECT_EQ(spec.update().dense(), v1::UpdateSpec::ALL_REDUCE);
  }
  ASSERT_TRUE(Textproto("update { dense: all_reduce wire: bf16 }", spec).ok());
  EXPECT_EQ(spec.update().wire(), v1::UpdateSpec::BF16);
  EXPECT_THAT(TextprotoError("update { dense: ALREDUCE }"),
              HasSubstr("job:1:17: update.dense is \"ALREDUCE\"; expected one of PARAMETER_SERVER, "
                        "ALL_REDUCE; did you mean \"ALL_REDUCE\"?"));
  EXPECT_THAT(YamlError("update: {dense: 7}"), HasSubstr("expected one of PARAMETER_SERVER"));
}

TEST(JobTextTest, WholeNumbersAreWholeAndInRange) {
  v1::JobSpec spec;
  ASSERT_TRUE(Yaml("seed: 18446744073709551615\nworkers: \"3\"\nbatch_size: 1e3", spec).ok());
  EXPECT_EQ(spec.seed(), 18446744073709551615u);
  EXPECT_EQ(spec.workers(), 3);
  EXPECT_EQ(spec.batch_size(), 1000);
  for (const char* value : {"-1", "4294967296", "1.5", "two", "1_000", "''", "nan", "1e300"}) {
    EXPECT_THAT(YamlError(absl::StrCat("workers: ", value)),
                HasSubstr("expected a whole number from 0 to 4294967295"))
        << value;
  }
  EXPECT_THAT(JsonError("{\"optimizer\":\n {\"learning_rate\": 1e39}}"),
              HasSubstr("job:2:20: optimizer.learning_rate is \"1e39\"; expected a number of at"));
  EXPECT_THAT(YamlError("data: {holdout: a fifth}"), HasSubstr("expected a number, such as 0.1"));
  EXPECT_THAT(YamlError("update: {deterministic: 2}"), HasSubstr("expected true or false"));
}

TEST(JobTextTest, TextsAreInQuotesWhereTheNotationHasThem) {
  v1::JobSpec spec;
  ASSERT_TRUE(Yaml("name: no\nowner: 1e-3\nnamespace: on", spec).ok());
  EXPECT_EQ(spec.name(), "no");
  EXPECT_EQ(spec.owner(), "1e-3");
  EXPECT_EQ(spec.namespace_(), "on");
  EXPECT_THAT(TextprotoError("name: digits"),
              HasSubstr("job:1:7: name is \"digits\"; expected a text, in quotes"));
  EXPECT_THAT(JsonError("{\"name\": 12}"), HasSubstr("job:1:10: name is \"12\"; expected a text"));
}

TEST(JobTextTest, AnUnknownFieldNamesTheNearestOrWhereItIs) {
  EXPECT_EQ(YamlError("name: a\nwokers: 3"),
            "job:2:1: a job has no field \"wokers\"; did you mean \"workers\"?");
  EXPECT_EQ(TextprotoError("optimizer {\n  learning_rat: 1 }"),
            "job:2:3: optimizer has no field \"learning_rat\"; did you mean \"learning_rate\"?");
  EXPECT_EQ(JsonError("{\"learning_rate\": 1}"),
            "job:1:2: a job has no field \"learning_rate\"; did you mean optimizer.learning_rate?");
  EXPECT_EQ(YamlError("holdout: 0.1"),
            "job:1:1: a job has no field \"holdout\"; did you mean data.holdout or "
            "validation.holdout?");
  EXPECT_EQ(YamlError("stop: {until: 5}"),
            "job:1:8: stop has no field \"until\"; it has steps, epochs, target, evaluate_only, "
            "tokens, hours, patience");
}

TEST(JobTextTest, NamesTwiceAndTwoOfOneChoiceAreRefused) {
  EXPECT_THAT(YamlError("workers: 1\nseed: 2\nworkers: 1"),
              HasSubstr("job:3:1: \"workers\" was given in line 1 already"));
  EXPECT_THAT(JsonError("{\"seed\": 1,\n\"seed\": 1}"), HasSubstr("job:2:1: \"seed\" was given"));
  EXPECT_THAT(JsonError("{\"batchSize\": 1, \"batch_size\": 1}"), HasSubstr("batch_size is given"));
  EXPECT_THAT(TextprotoError("seed: 1 seed: 1"), HasSubstr("job:1:9: seed is given twice"));
  EXPECT_THAT(YamlError("model:\n  mlp: {}\n  ngram:"),
              HasSubstr("job:3:3: model.ngram and model.mlp are both given; give one of "));
}

TEST(JobTextTest, GroupsListsAndValuesAreToldApart) {
  EXPECT_THAT(
      YamlError("optimizer: adam"),
      HasSubstr("job:1:12: optimizer is \"adam\"; expected a group of fields: it has name"));
  EXPECT_THAT(YamlError("workers: [1, 2]"), HasSubstr("workers is a list; expected one value"));
  EXPECT_THAT(YamlError("workers: {a: 1}"),
              HasSubstr("workers is a group of fields; expected one"));
  EXPECT_THAT(YamlError("model: {mlp: {hidden: [1, ~]}}"), HasSubstr("an empty element"));
  EXPECT_THAT(YamlError("- 1"), HasSubstr("the whole text is a list; expected a group"));
  EXPECT_THAT(YamlError("digits"), HasSubstr("the whole text is \"digits\"; expected a group"));
  v1::JobSpec spec;
  // One value is a list of one, a name with nothing behind it chooses a group.
  ASSERT_TRUE(Yaml("model: {mlp: {hidden: 5}}\nworkers:\ndata:\n  synthetic_clicks:", spec).ok());
  EXPECT_EQ(spec.model().mlp().hidden(0), 5);
  EXPECT_TRUE(spec.data().has_synthetic_clicks());
}

TEST(JobTextTest, SyntaxErrorsNameTheirPlace) {
  EXPECT_THAT(TextprotoError("workers: 2\nmodel { mlp { hidden: }"),
              HasSubstr("job:2:23: expected a value, found '}'"));
  EXPECT_THAT(TextprotoError("model { mlp {"), HasSubstr("job:1:14: expected the name of a field"));
  EXPECT_THAT(TextprotoError("model {\n} }"), HasSubstr("job:2:3: expected the name of a field"));
  EXPECT_THAT(TextprotoError("workers 2"), HasSubstr("job:1:9: expected ':' and a value, or '{'"));
  EXPECT_THAT(TextprotoError("name: \"a\n\""), HasSubstr("job:1:9: "));
  EXPECT_THAT(TextprotoError("[a.b] { }"), HasSubstr("found '['"));
  EXPECT_THAT(JsonError("{\"a\": 1,\n 'b': 2}"), HasSubstr("job:2:2: this is not JSON: "));
  EXPECT_THAT(JsonError("{\"seed\": 1"), HasSubstr("this is not JSON: "));
  EXPECT_THAT(JsonError("{} {}"), HasSubstr("job:1:4: this is not JSON: "));
  EXPECT_THAT(YamlError("a: [1"), HasSubstr("this is not YAML: "));
  EXPECT_THAT(YamlError("a: b: c"), HasSubstr("job:1:5: this is not YAML: "));
  EXPECT_THAT(YamlError("---\nseed: 1\n---\nseed: 2"), HasSubstr("several documents"));
}

TEST(JobTextTest, YamlsAliasesAreFollowedAndItsOtherMeansRefused) {
  v1::JobSpec spec;
  ASSERT_TRUE(Yaml("data: {text: &t {path: &p /a}}\nvalidation: {text: *t}\nname: *p", spec).ok());
  EXPECT_EQ(spec.validation().text().path(), "/a");
  EXPECT_EQ(spec.name(), "/a");
  ASSERT_TRUE(Yaml("seed: !!int 5\nname: !!str 5", spec).ok());
  EXPECT_EQ(spec.name(), "5");
  EXPECT_THAT(YamlError("name: !env HOME"), HasSubstr("job:1:7: the tag !env is not supported"));
  EXPECT_THAT(YamlError("a: &a {seed: 1}\n<<: *a"), HasSubstr("merge keys are not supported"));
  EXPECT_THAT(YamlError("? [a]\n: 1"), HasSubstr("expected the name of a field"));
}

TEST(JobTextTest, TextsThatAreTooDeepOrGrowAreRefused) {
  std::string bomb = "a: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    absl::StrAppend(&bomb, "a", i, ": &a", i, " [");
    for (int j = 0; j < 10; ++j) absl::StrAppend(&bomb, j == 0 ? "" : ", ", "*a", i - 1);
    absl::StrAppend(&bomb, "]\n");
  }
  EXPECT_THAT(YamlError(bomb), HasSubstr("the text up to here is far larger than any job"));
  std::string deep, deep_list;
  for (int i = 0; i < 100000; ++i) {
    deep += "a {";
    deep_list += "[";
  }
  EXPECT_THAT(TextprotoError(deep), HasSubstr("more than 64 deep"));
  EXPECT_THAT(YamlError(std::string(70, '[') + std::string(70, ']')),
              HasSubstr("more than 64 deep"));
  // Far deeper than the library's stack is for.
  YamlError("a: " + deep_list);
  EXPECT_THAT(JsonError("{\"a\": " + deep_list), HasSubstr("more than 64 deep"));
  std::string wide = "{\"a\": [0";
  for (int i = 0; i < 100000; ++i) wide += ",0";
  EXPECT_THAT(JsonError(wide + "]}"), HasSubstr("up to here is far larger"));
}

// Whatever a file holds, it is read or refused.
TEST(JobTextTest, RandomDamageNeverGoesUnanswered) {
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = round % 3 == 0 ? kTextproto : round % 3 == 1 ? kYaml : kJson;
    for (unsigned i = 0; i <= random() % 4; ++i) {
      const size_t at = random() % text.size();
      const size_t other = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text[at] = text[other];
          break;
        case 2:
          text.erase(at, random() % 8);
          break;
        default:
          text.insert(at, text.substr(other, random() % 20));
      }
    }
    v1::JobSpec spec;
    const absl::Status status = round % 3 == 0   ? Textproto(text, spec)
                                : round % 3 == 1 ? Yaml(text, spec)
                                                 : Json(text, spec);
    if (status.ok()) continue;
    ++refused;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(status.message().substr(0, 3), "job") << status;
  }
  EXPECT_GT(refused, 1000);
}

class AssignFieldTest : public ::testing::Test {
 protected:
  AssignFieldTest() {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kTextproto, &spec_));
  }
  std::string Error(const std::string& assignment) {
    return ErrorOf(AssignField(assignment, "--set", spec_));
  }
  v1::JobSpec spec_;
};

TEST_F(AssignFieldTest, WritesValuesElementsAndLists) {
  for (const char* assignment :
       {"optimizer.learning_rate=3e-4", "workers=4", "update.blockBytes=1MiB",
        "update.dense=parameter-server", "model.mlp.hidden[1]=7", "model.mlp.hidden[4]=9",
        "data.csv.numeric=[c, d e]", "data.csv.categorical=a, [b]", "name=a=b: #c",
        "schedule.name=cosine", "owner=", "labels.team=a", "labels.a.b=[c]", "labels.team=b"}) {
    const absl::Status status = AssignField(assignment, "--set", spec_);
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_EQ(spec_.optimizer().learning_rate(), 3e-4f);
  EXPECT_EQ(spec_.workers(), 4);
  EXPECT_EQ(spec_.update().block_bytes(), 1 << 20);
  EXPECT_EQ(spec_.update().dense(), v1::UpdateSpec::PARAMETER_SERVER);
  EXPECT_THAT(spec_.model().mlp().hidden(), ::testing::ElementsAre(256, 7, 8, 4, 9));
  EXPECT_THAT(spec_.data().csv().numeric(), ::testing::ElementsAre("c", "d e"));
  EXPECT_THAT(spec_.data().csv().categorical(), ::testing::ElementsAre("a, [b]"));
  EXPECT_EQ(spec_.name(), "a=b: #c");
  EXPECT_EQ(spec_.schedule().name(), "cosine");
  EXPECT_EQ(spec_.labels_size(), 2);
  EXPECT_EQ(spec_.labels().at("team"), "b");
  EXPECT_EQ(spec_.labels().at("a.b"), "[c]");
}

TEST_F(AssignFieldTest, AGroupInBracesReplacesAMessage) {
  spec_.mutable_optimizer()->set_momentum(0.5f);
  ASSERT_TRUE(AssignField("optimizer={name: sgd, learning_rate: 0.25}", "--set", spec_).ok());
  EXPECT_EQ(spec_.optimizer().name(), "sgd");
  EXPECT_EQ(spec_.optimizer().learning_rate(), 0.25f);
  EXPECT_EQ(spec_.optimizer().momentum(), 0);
  ASSERT_TRUE(AssignField("model={ngram: {orders: 3}}", "--set", spec_).ok());
  EXPECT_TRUE(spec_.model().has_ngram());
  ASSERT_TRUE(AssignField("batch_changes[0]={step: 5, batch_size: 64}", "--set", spec_).ok());
  EXPECT_EQ(spec_.batch_changes(0).batch_size(), 64);

  EXPECT_EQ(Error("optimizer={nme: sgd}"),
            "--set: optimizer has no field \"nme\"; did you mean \"name\"?");
  EXPECT_THAT(Error("optimizer={learning_rate: fast}"),
              HasSubstr("--set: optimizer.learning_rate is \"fast\"; expected a number"));
  EXPECT_THAT(Error("batch_changes={step: 5}"), HasSubstr("batch_changes is a group of fields"));
}

TEST_F(AssignFieldTest, TellsWhatIsWrongAsFilesDo) {
  EXPECT_EQ(Error("optimizer.learning_rat=1"),
            "--set: optimizer has no field \"learning_rat\"; did you mean \"learning_rate\"?");
  EXPECT_EQ(Error("workers=two"),
            "--set: workers is \"two\"; expected a whole number from 0 to 4294967295");
  EXPECT_THAT(Error("update.dense=alreduce"), HasSubstr("did you mean \"ALL_REDUCE\"?"));
  EXPECT_THAT(Error("model.ngram.orders=3"), HasSubstr("model.ngram and model.mlp are both given"));
  EXPECT_THAT(Error("optimizer=adam"), HasSubstr("optimizer is a group of fields; name one"));
  EXPECT_THAT(Error("workers.count=1"), HasSubstr("workers is a single value and has no fields"));
  EXPECT_THAT(Error("workers[0]=1"), HasSubstr("workers is not a list; leave the index out"));
  for (const char* assignment : {"labels=a", "labels[0]=a", "labels[0].key=a"}) {
    EXPECT_THAT(Error(assignment), HasSubstr("give one as in labels.NAME=VALUE"));
  }
  EXPECT_THAT(Error("model.mlp.hidden[5]=1"),
              HasSubstr("model.mlp.hidden has 4 elements, counted"));
  EXPECT_THAT(Error("model.mlp.hidden[x]=1"),
              HasSubstr("\"hidden[x]\" is not the name of a field"));
  EXPECT_THAT(Error("model.mlp.hidden=[1, x]"), HasSubstr("model.mlp.hidden is \"x\"; expected a"));
  for (const char* assignment : {"workers", "=3", "", "workers 3"}) {
    EXPECT_THAT(Error(assignment), HasSubstr("is not an assignment; expected one such as"));
  }
  EXPECT_THAT(Error("a..b=1"), Not(HasSubstr("assignment")));
}

class CompleteAssignmentTest : public AssignFieldTest {
 protected:
  std::string Complete(const std::string& assignment) {
    const auto completed = CompleteAssignment(assignment, "--set", spec_);
    return completed.ok() ? *completed : std::string(completed.status().message());
  }
};

TEST_F(CompleteAssignmentTest, FindsTheOneFieldWhosePathEndsSo) {
  EXPECT_EQ(Complete("learning_rate=1"), "optimizer.learning_rate=1");
  EXPECT_EQ(Complete("learningRate=a=b"), "optimizer.learning_rate=a=b");
  EXPECT_EQ(Complete("lr=0.1"), "optimizer.learning_rate=0.1");
  EXPECT_EQ(Complete("optimizer.lr=0.1"), "optimizer.learning_rate=0.1");
  EXPECT_EQ(Complete("epochs=3"), "stop.epochs=3");
  EXPECT_EQ(Complete("steps=3"), "stop.steps=3");
  EXPECT_EQ(Complete("batch=3"), "batch_size=3");
  // The job has chosen its model and its reader.
  EXPECT_EQ(Complete("hidden[1]=3"), "model.mlp.hidden[1]=3");
  EXPECT_EQ(Complete("mlp.hidden=[3]"), "model.mlp.hidden=[3]");
  // Whole paths, also of fields that others end in.
  for (const char* assignment : {"name=x", "optimizer.name=sgd", "labels.team=a", "workers=2"}) {
    EXPECT_EQ(Complete(assignment), assignment);
  }
  // For AssignField to refuse.
  for (const char* assignment : {"", "=1", "workers", "lern=1", "a..b=1", "orders=2"}) {
    EXPECT_EQ(Complete(assignment), assignment);
  }
}

TEST_F(CompleteAssignmentTest, NamesTheFieldsThatItMayBe) {
  EXPECT_EQ(Complete("every_steps=5"),
            "--set: \"every_steps\" may be evaluation.every_steps or checkpoint.every_steps or "
            "adaptive_batch.every_steps or balance.every_steps; name one of them");
  spec_.clear_model();
  EXPECT_EQ(Complete("classes=2"),
            "--set: \"classes\" may be model.logistic_regression.classes or model.mlp.classes or "
            "validation.synthetic_classification.classes; name one of them");
}

}  // namespace
}  // namespace muster
