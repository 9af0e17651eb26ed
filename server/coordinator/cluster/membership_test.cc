#include "server/coordinator/cluster/membership.h"

#include "absl/strings/str_cat.h"
#include "common/rpc/membership/protocol.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr absl::Duration kLease = absl::Seconds(5);
constexpr absl::Duration kForget = absl::Hours(1);

v1::RegisterDaemonRequest Request(uint64_t nonce, const std::string& address = "h:1") {
  v1::RegisterDaemonRequest request;
  request.set_protocol_version(kProtocolVersion);
  request.set_kind(v1::WORKER);
  request.set_id("w0");
  request.set_process_nonce(nonce);
  request.set_address(address);
  request.set_slots(2);
  return request;
}

class MembershipTest : public ::testing::Test {
 protected:
  absl::StatusOr<uint64_t> Register(const v1::RegisterDaemonRequest& request, absl::Duration now) {
    const auto admission = membership_.Admit(request, next_, /*uncommitted=*/0, now);
    if (!admission.ok()) return admission.status();
    membership_.Commit(*admission, now);
    replaced_ = admission->replaces_live;
    if (!admission->renewed) ++next_;
    return admission->record.incarnation();
  }

  Membership membership_{kLease};
  uint64_t next_ = 1;
  bool replaced_ = false;
};

TEST_F(MembershipTest, RegistrationIsIdempotentByNonce) {
  EXPECT_EQ(*Register(Request(7), absl::ZeroDuration()), 1);
  EXPECT_EQ(*Register(Request(7), absl::Seconds(1)), 1);
  EXPECT_TRUE(membership_.Holds("w0", 1));
}

TEST_F(MembershipTest, LeaseEndsUnlessRenewed) {
  ASSERT_TRUE(Register(Request(7), absl::ZeroDuration()).ok());
  EXPECT_TRUE(membership_.Renew("w0", 1, absl::Seconds(3)).ok());
  EXPECT_THAT(membership_.Expire(absl::Seconds(7), kForget), IsEmpty());
  EXPECT_THAT(membership_.Expire(absl::Seconds(8), kForget), ElementsAre("w0"));
  EXPECT_FALSE(membership_.Holds("w0", 1));
  EXPECT_THAT(membership_.Expire(absl::Seconds(9), kForget), IsEmpty()) << "lost only once";
  const absl::Status late = membership_.Renew("w0", 1, absl::Seconds(9));
  EXPECT_EQ(late.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(late.message()), HasSubstr("register again"));
}

TEST_F(MembershipTest, TimeInWhichNobodyCouldBeHeardDoesNotCount) {
  ASSERT_TRUE(Register(Request(7), absl::ZeroDuration()).ok());
  membership_.Excuse(absl::Seconds(4));
  EXPECT_THAT(membership_.Expire(absl::Seconds(8), kForget), IsEmpty());
  EXPECT_THAT(membership_.Expire(absl::Seconds(9), kForget), ElementsAre("w0"));
}

TEST_F(MembershipTest, AProcessThatLostItsLeaseGetsAnotherIncarnation) {
  ASSERT_TRUE(Register(Request(7), absl::ZeroDuration()).ok());
  membership_.Expire(absl::Seconds(6), kForget);
  EXPECT_EQ(*Register(Request(7), absl::Seconds(7)), 2);
  EXPECT_EQ(membership_.Renew("w0", 1, absl::Seconds(7)).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(membership_.Renew("w0", 2, absl::Seconds(7)).ok());
}

TEST_F(MembershipTest, ALiveHolderKeepsItsId) {
  ASSERT_TRUE(Register(Request(7, "a:1"), absl::ZeroDuration()).ok());
  const absl::Status clash = Register(Request(8, "b:1"), absl::Seconds(2)).status();
  EXPECT_EQ(clash.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(clash.message()), HasSubstr("ends in 3000 ms"));
  EXPECT_TRUE(membership_.Holds("w0", 1));
  membership_.Expire(absl::Seconds(5), kForget);
  EXPECT_EQ(*Register(Request(8, "b:1"), absl::Seconds(5)), 2);
}

TEST_F(MembershipTest, ARestartedProcessTakesOverAtOnceByAddressOrBrokenConnection) {
  ASSERT_TRUE(Register(Request(7, "a:1"), absl::ZeroDuration()).ok());
  EXPECT_EQ(*Register(Request(8, "a:1"), absl::Seconds(1)), 2);
  EXPECT_TRUE(replaced_);
  membership_.Disconnected("w0", 1);
  EXPECT_FALSE(Register(Request(9, "b:1"), absl::Seconds(1)).ok()) << "an older self broke off";
  membership_.Disconnected("w0", 2);
  EXPECT_EQ(*Register(Request(9, "b:1"), absl::Seconds(1)), 3);
}

TEST_F(MembershipTest, AnAddressThatOthersMayHaveTooDoesNotProveARestart) {
  uint64_t nonce = 1;
  for (const std::string address : {"host", "host:0", "0.0.0.0:7072", "[::]:7072"}) {
    // Whoever had the id before is gone.
    membership_.Expire(absl::Seconds(6), kForget);
    ASSERT_TRUE(Register(Request(nonce++, address), absl::ZeroDuration()).ok());
    EXPECT_FALSE(Register(Request(nonce++, address), absl::Seconds(1)).ok()) << address;
  }
}

TEST_F(MembershipTest, LeavingEndsTheLeaseAtOnce) {
  ASSERT_TRUE(Register(Request(7), absl::ZeroDuration()).ok());
  membership_.Leave("w0", 1, absl::Seconds(1));
  EXPECT_FALSE(membership_.Holds("w0", 1));
  ASSERT_NE(membership_.Find("w0"), nullptr);
}

TEST_F(MembershipTest, RestoredDaemonsHaveOneLeaseOfGraceAndAreNotTrustedYet) {
  v1::DaemonRecord record;
  record.set_id("s1");
  record.set_kind(v1::SERVER);
  record.set_incarnation(4);
  membership_.Restore(record, absl::Seconds(100));
  EXPECT_TRUE(membership_.Holds("s1", 4));
  EXPECT_FALSE(membership_.Find("s1")->heard);
  EXPECT_THAT(membership_.Expire(absl::Seconds(104), kForget), IsEmpty());
  EXPECT_TRUE(membership_.Renew("s1", 4, absl::Seconds(104)).ok());
  EXPECT_TRUE(membership_.Find("s1")->heard);
  EXPECT_THAT(membership_.Expire(absl::Seconds(108), kForget), IsEmpty());
}

TEST_F(MembershipTest, ARestoredDaemonThatIsSilentMakesWay) {
  v1::DaemonRecord record;
  record.set_id("w0");
  record.set_kind(v1::WORKER);
  record.set_address("a:1");
  record.set_process_nonce(1);
  next_ = 5;
  membership_.Restore(record, absl::ZeroDuration());
  EXPECT_EQ(*Register(Request(2, "b:1"), absl::Seconds(1)), 5);
  EXPECT_TRUE(replaced_);
  EXPECT_FALSE(Register(Request(3, "c:1"), absl::Seconds(1)).ok());
}

TEST_F(MembershipTest, ForgetsTheLongLost) {
  ASSERT_TRUE(Register(Request(7), absl::ZeroDuration()).ok());
  membership_.Expire(absl::Seconds(6), kForget);
  membership_.Expire(absl::Hours(2), kForget);
  EXPECT_EQ(membership_.Find("w0"), nullptr);
}

TEST_F(MembershipTest, NamesWhatIsMissing) {
  const auto message = [&](const v1::RegisterDaemonRequest& request) {
    return std::string(Register(request, absl::ZeroDuration()).status().message());
  };
  v1::RegisterDaemonRequest request = Request(7);
  request.set_protocol_version(kProtocolVersion + 1);
  EXPECT_THAT(message(request),
              HasSubstr(absl::StrCat("speaks protocol version ", kProtocolVersion + 1,
                                     ", this coordinator ", kProtocolVersion)));
  request = Request(7);
  request.clear_id();
  EXPECT_THAT(message(request), HasSubstr("id is empty"));
  request = Request(0);
  EXPECT_THAT(message(request), HasSubstr("process_nonce"));
  request = Request(7);
  request.clear_kind();
  EXPECT_THAT(message(request), HasSubstr("SERVER or WORKER"));
  request = Request(7, "");
  EXPECT_THAT(message(request), HasSubstr("host:port"));
  request = Request(7);
  request.set_slots(0);
  EXPECT_THAT(message(request), HasSubstr("slots is 0"));
}

}  // namespace
}  // namespace muster
