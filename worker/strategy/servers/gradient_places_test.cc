#include "worker/strategy/servers/gradient_places.h"

#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

// Unit 3 is tied to unit 0; units 1 and 3 share a place.
class GradientPlacesTest : public ::testing::Test {
 protected:
  GradientPlacesTest() {
    for (uint32_t unit = 0; unit < 4; ++unit) {
      tensors_.push_back({.name = std::string(1, 'a' + unit), .shape = {2 + unit}, .unit = unit});
    }
    tensors_.push_back({.name = "tied", .shape = {2}, .unit = 3, .tied_to = "a"});
    layout_.emplace(DenseLayout::Create(tensors_, {}).value());
    runs_ = DenseRunsByUnit(*layout_, 4, 1 << 20);
    places_.emplace(*layout_, tensors_, nullptr);
  }

  std::vector<TensorSpec> tensors_;
  std::optional<DenseLayout> layout_;
  std::vector<std::vector<DenseRun>> runs_;
  std::optional<GradientPlaces> places_;
};

TEST_F(GradientPlacesTest, UnitsTakeTwoPlacesByTurnsUnlessOthersAreTiedToThem) {
  const GradientSpans gradients = places_->gradients();
  EXPECT_EQ(gradients[3].data(), gradients[1].data());
  EXPECT_EQ(gradients[4].data(), gradients[0].data());
  EXPECT_TRUE(places_->SharePlace(1, 3));
  for (const int unit : {0, 1}) {
    EXPECT_FALSE(places_->SharePlace(unit, 2));
    EXPECT_NE(gradients[unit].data(), gradients[2].data());
  }
  EXPECT_FALSE(places_->SharePlace(0, 1));
  EXPECT_THAT(places_->tied_units(3), ElementsAre(0));
}

TEST_F(GradientPlacesTest, WhatIsReadIsWhatWasWritten) {
  for (int unit = 0; unit < 4; ++unit) {
    float next = 10.0f * static_cast<float>(unit);
    for (float& gradient : places_->gradients()[unit]) gradient = next++;
    const Payload read = places_->Read(unit, runs_[unit][0]);
    std::vector<float> values(2 + unit);
    ASSERT_EQ(read.size(), values.size() * sizeof(float));
    read.CopyTo(values.data());
    EXPECT_EQ(values, std::vector<float>(places_->gradients()[unit].begin(),
                                         places_->gradients()[unit].end()));
    EXPECT_EQ(values[1], 10 * unit + 1);
  }
}

TEST_F(GradientPlacesTest, APlaceIsFreeOnceNobodyReadsIt) {
  for (const int unit : {0, 2, 3}) {
    places_->AwaitReaders(unit);
    std::optional<Payload> read = places_->Read(unit, runs_[unit][0]);
    std::optional<Payload> copy = *read;
    for (const int other : {0, 1, 2}) {
      if (!places_->SharePlace(unit, other)) places_->AwaitReaders(other);
    }
    absl::Notification free;
    std::thread writer([&] {
      // Another unit in that place waits, too.
      places_->AwaitReaders(unit == 3 ? 1 : unit);
      free.Notify();
    });
    read.reset();
    EXPECT_FALSE(free.WaitForNotificationWithTimeout(absl::Milliseconds(20)));
    copy.reset();
    writer.join();
  }
}

TEST_F(GradientPlacesTest, ReadersMayOutliveIt) {
  places_->gradients()[2][1] = 7;
  const Payload read = places_->Read(2, runs_[2][0]);
  places_.reset();
  std::vector<float> values(4);
  read.CopyTo(values.data());
  EXPECT_EQ(values[1], 7);
}

}  // namespace
}  // namespace muster
