#include "common/rpc/certificate_ends.h"

#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/rpc/certificates_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class CertificateEndsTest : public ::testing::Test {
 protected:
  CertificatesForTesting cluster_{::testing::TempDir(), "ends"};
};

TEST_F(CertificateEndsTest, SaysWhoseItIsAndWhenItEnds) {
  const auto ends = ReadCertificateEnds(
      cluster_.Issue("server", CertificatesForTesting::Validity::kNow, "10.0.0.7"));
  ASSERT_TRUE(ends.ok()) << ends.status();
  EXPECT_THAT(ends->subject, HasSubstr("server"));
  EXPECT_THAT(ends->subject, HasSubstr("(10.0.0.7)"));
  EXPECT_GT(ends->certificate, absl::Now() + absl::Hours(1));
  EXPECT_LT(ends->certificate, absl::Now() + absl::Hours(3));
  EXPECT_GT(ends->authority, absl::Now());
}

TEST_F(CertificateEndsTest, OneThatHasExpiredIsReadAllTheSame) {
  const auto ends =
      ReadCertificateEnds(cluster_.Issue("late", CertificatesForTesting::Validity::kExpired));
  ASSERT_TRUE(ends.ok()) << ends.status();
  EXPECT_LT(ends->certificate, absl::Now());
}

TEST_F(CertificateEndsTest, AFileWithoutACertificateIsNamed) {
  TlsFiles files = cluster_.Issue("server");
  files.certificate = files.key;
  const absl::Status status = ReadCertificateEnds(files).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(files.key));
}

}  // namespace
}  // namespace muster
