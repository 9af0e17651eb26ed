#include "client/commands/weights/evaluation_output.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::EvaluationResult Accuracy() {
  v1::EvaluationResult result;
  result.set_metric("accuracy");
  result.set_value(0.75);
  result.set_loss(0.5);
  result.set_examples(1200);
  return result;
}

// A result of classes by these names, with the counts row by row.
v1::EvaluationResult Counted(const std::vector<std::string>& labels,
                             const std::vector<uint64_t>& counts) {
  v1::EvaluationResult result = Accuracy();
  v1::Confusion& confusion = *result.mutable_confusion();
  confusion.set_classes(static_cast<uint32_t>(labels.size()));
  for (const std::string& label : labels) confusion.add_labels(label);
  confusion.mutable_counts()->Add(counts.begin(), counts.end());
  return result;
}

// Classes 0, 1 and so on, of which each example is known.
v1::EvaluationResult Diagonal(size_t classes, uint64_t count, const std::string& prefix = "") {
  std::vector<std::string> labels;
  std::vector<uint64_t> counts(classes * classes);
  for (size_t c = 0; c < classes; ++c) {
    labels.push_back(absl::StrCat(prefix, c));
    counts[c * classes + c] = count;
  }
  return Counted(labels, counts);
}

// Columns of the longest line; of ASCII and "…" alone.
size_t Columns(const std::string& text) {
  size_t most = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    size_t columns = 0;
    for (const char c : line) columns += (c & 0xC0) != 0x80;
    most = std::max(most, columns);
  }
  return most;
}

TEST(EvaluationTextTest, ALineWithTheMetricFirst) {
  EXPECT_EQ(EvaluationText(Accuracy(), {}, 300),
            "accuracy 0.7500, loss 0.5000, over 1,200 examples, at clock 300\n");
  v1::EvaluationResult loss = Accuracy();
  loss.set_metric("loss");
  loss.set_value(0.5);
  EXPECT_EQ(EvaluationText(loss, {{"perplexity", 1.6487}}, std::nullopt),
            "loss 0.5000, perplexity 1.6487, over 1,200 examples\n");
  v1::EvaluationResult none = Accuracy();
  none.clear_value();
  none.set_no_value("bad\x1b[2J");
  EXPECT_EQ(EvaluationText(none, {}, std::nullopt),
            "accuracy has no value (bad\\x1b[2J), loss 0.5000, over 1,200 examples\n");
}

TEST(EvaluationTextTest, ClassesAndTheirConfusion) {
  v1::EvaluationResult result = Counted({"no", "yes"}, {900, 100, 50, 150});
  result.set_auc(0.875);
  EXPECT_EQ(EvaluationText(result, {}, 300),
            "accuracy 0.7500, auc 0.8750, loss 0.5000, over 1,200 examples, at clock 300\n"
            "\n"
            "class  examples  precision  recall      f1\n"
            "no        1,000     0.9474  0.9000  0.9231\n"
            "yes         200     0.6000  0.7500  0.6667\n"
            "\n"
            "a row for each true class, a column for each predicted one:\n"
            "      no  yes\n"
            "no   900  100\n"
            "yes   50  150\n");
  result.set_metric("auc");
  EXPECT_THAT(EvaluationText(result, {}, 300), Not(HasSubstr(", auc ")));
}

TEST(EvaluationTextTest, SharesOfNothingAreDashes) {
  // The first is never predicted, the second has no examples, the third neither.
  const std::string text =
      EvaluationText(Counted({"a", "b", "c"}, {0, 4, 0, 0, 0, 0, 0, 0, 0}), {}, std::nullopt);
  EXPECT_THAT(text, HasSubstr("a             4          -  0.0000  0.0000\n"));
  EXPECT_THAT(text, HasSubstr("b             0     0.0000       -  0.0000\n"));
  EXPECT_THAT(text, HasSubstr("c             0          -       -       -\n"));
}

TEST(EvaluationTextTest, TablesFitATerminal) {
  for (const size_t classes : {2, 3, 9, 10, 20, 100}) {
    for (const std::string& prefix : {std::string(), std::string(64, 'x')}) {
      const std::string text = EvaluationText(Diagonal(classes, 1234, prefix), {}, 300);
      EXPECT_LE(Columns(text), 80) << text;
      EXPECT_EQ(text.find("a row for each") != std::string::npos, classes <= 10);
    }
  }
  EXPECT_THAT(EvaluationText(Diagonal(20, 1), {}, 300), Not(HasSubstr("more")));
  EXPECT_THAT(EvaluationText(Diagonal(25, 1), {}, 300),
              HasSubstr("\n… and 5 more; --output json has all of them\n"));
}

TEST(EvaluationTextTest, LabelsCannotSteerTheTerminal) {
  const std::string text = EvaluationText(Counted({"a\x1b[2J", "b\nc"}, {1, 0, 0, 1}), {}, 300);
  EXPECT_THAT(text, HasSubstr("\na\\x1b[2J "));
  EXPECT_THAT(text, HasSubstr("\nb\\nc "));
}

TEST(EvaluationTextTest, ManyClassesHaveNoMatrix) {
  v1::EvaluationResult result = Accuracy();
  result.mutable_confusion()->set_classes(1000);
  EXPECT_EQ(EvaluationText(result, {}, 300),
            "accuracy 0.7500, loss 0.5000, over 1,200 examples, at clock 300\n"
            "no confusion matrix: the model has 1,000 classes, more than 100\n");
  const nlohmann::ordered_json fields = EvaluationFields(result, {});
  EXPECT_TRUE(fields["classes"].is_null());
  EXPECT_TRUE(fields["confusion"].is_null());
  EXPECT_EQ(fields["no_confusion"], "the model has 1,000 classes, more than 100");
  // Nor has a message that no coordinator of ours sends.
  result = Counted({"a", "b"}, {1, 2, 3});
  EXPECT_THAT(EvaluationText(result, {}, 300), HasSubstr("no confusion matrix"));
}

TEST(EvaluationFieldsTest, AllClassesAndTheWholeMatrix) {
  v1::EvaluationResult result = Counted({"no", "yes"}, {3, 0, 1, 0});
  result.set_auc(0.5);
  EXPECT_EQ(EvaluationFields(result, {}), nlohmann::ordered_json::parse(R"({
              "auc": 0.5,
              "classes": [
                {"label": "no", "examples": 3, "precision": 0.75, "recall": 1.0, "f1": 0.8571428571428571},
                {"label": "yes", "examples": 1, "precision": null, "recall": 0.0, "f1": 0.0}
              ],
              "confusion": [[3, 0], [1, 0]]
            })"));
  result.clear_auc();
  EXPECT_TRUE(EvaluationFields(result, {})["auc"].is_null());
  EXPECT_EQ(EvaluationFields(Diagonal(100, 2), {})["classes"].size(), 100);
  EXPECT_FALSE(EvaluationFields(Diagonal(3, 2), {}).contains("auc"));
}

TEST(EvaluationFieldsTest, OtherModelsHaveTheirValuesAlone) {
  EXPECT_EQ(EvaluationFields(Accuracy(), {{"perplexity", 4}}),
            nlohmann::ordered_json::parse(R"({"perplexity": 4.0})"));
  v1::EvaluationResult none = Accuracy();
  none.set_no_value("none");
  EXPECT_TRUE(EvaluationFields(none, {})["value"].is_null());
}

}  // namespace
}  // namespace muster
