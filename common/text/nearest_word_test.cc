#include "common/text/nearest_word.h"

#include "gtest/gtest.h"

namespace muster {
namespace {

TEST(NearestWordTest, FindsWordsWithALetterWrongMissingTooManyOrSwapped) {
  const std::vector<std::string> known = {"workers", "batch_size", "stop", "seed"};
  for (const char* word : {"wokers", "worker", "workerss", "wrokers", "Workers", "workess"}) {
    EXPECT_EQ(NearestWord(word, known), "workers") << word;
  }
  EXPECT_EQ(NearestWord("batch-size", known), "batch_size");
  EXPECT_EQ(NearestWord("bathsize", known), "batch_size");
  EXPECT_EQ(NearestWord("sotp", known), "stop");
}

TEST(NearestWordTest, SaysNothingWhereNoneIsNear) {
  const std::vector<std::string> known = {"workers", "lr", "a"};
  EXPECT_EQ(NearestWord("optimizer", known), "");
  EXPECT_EQ(NearestWord("", known), "");
  EXPECT_EQ(NearestWord("b", known), "");
  EXPECT_EQ(NearestWord("seed", {}), "");
  EXPECT_EQ(NearestWord(std::string(100000, 'w'), known), "");
}

TEST(NearestWordTest, TakesTheNearest) {
  EXPECT_EQ(NearestWord("beta", {"beta1", "beta2"}), "beta1");
  EXPECT_EQ(NearestWord("epocs", {"steps", "epochs"}), "epochs");
  EXPECT_EQ(DidYouMean("epocs", {"steps", "epochs"}), "; did you mean \"epochs\"?");
  EXPECT_EQ(DidYouMean("zzz", {"steps", "epochs"}), "");
}

}  // namespace
}  // namespace muster
