#include "common/rpc/tls_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "common/rpc/certificates_for_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using Validity = CertificatesForTesting::Validity;

class TlsFilesTest : public ::testing::Test {
 protected:
  static std::string Message(const TlsFiles& files, absl::StatusCode code,
                             TlsUse use = TlsUse::kCallsAndServes) {
    const absl::Status status = ReadTlsFiles(files, use).status();
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  }

  CertificatesForTesting cluster_{::testing::TempDir(), "cluster"};
};

TEST_F(TlsFilesTest, WhatBelongsTogetherIsRead) {
  const auto identity = ReadTlsFiles(cluster_.Issue("server"), TlsUse::kCallsAndServes);
  ASSERT_TRUE(identity.ok()) << identity.status();
  EXPECT_THAT(identity->authority, HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_THAT(identity->certificate, HasSubstr("BEGIN CERTIFICATE"));
  EXPECT_NE(identity->certificate, identity->authority);
  EXPECT_THAT(identity->key, HasSubstr("PRIVATE KEY"));
}

TEST_F(TlsFilesTest, OneThatIsNotNamedIsAskedFor) {
  TlsFiles files = cluster_.Issue("server");
  EXPECT_FALSE(files.None());
  files.key.clear();
  EXPECT_THAT(Message(files, absl::StatusCode::kInvalidArgument),
              HasSubstr("no file is named for the key"));
  EXPECT_TRUE(TlsFiles().None());
}

TEST_F(TlsFilesTest, OneThatIsNotThereIsNamed) {
  TlsFiles files = cluster_.Issue("server");
  files.certificate = ::testing::TempDir() + "/nowhere.pem";
  EXPECT_THAT(Message(files, absl::StatusCode::kInvalidArgument), HasSubstr("nowhere.pem"));
}

TEST_F(TlsFilesTest, AFolderIsRefused) {
  TlsFiles files = cluster_.Issue("server");
  files.authority = ::testing::TempDir();
  EXPECT_THAT(Message(files, absl::StatusCode::kInvalidArgument),
              HasSubstr("the authority cannot be read from"));
}

TEST_F(TlsFilesTest, OneWithSomethingElseIsNamed) {
  TlsFiles files = cluster_.Issue("server");
  TlsFiles mixed = files;
  mixed.authority = files.key;
  EXPECT_THAT(Message(mixed, absl::StatusCode::kInvalidArgument),
              HasSubstr("no certificate in PEM is in " + files.key));
  mixed = files;
  mixed.key = files.certificate;
  EXPECT_THAT(Message(mixed, absl::StatusCode::kInvalidArgument),
              HasSubstr("no private key in PEM"));
}

TEST_F(TlsFilesTest, AKeyThatOthersMayReadOrWriteIsRefused) {
  const TlsFiles files = cluster_.Issue("server");
  for (const mode_t mode : {0604, 0602, 0620, 0666}) {
    ASSERT_EQ(chmod(files.key.c_str(), mode), 0);
    const std::string message = Message(files, absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(message, HasSubstr("chmod 600 " + files.key));
    EXPECT_THAT(message, HasSubstr(mode == 0604 ? "may be read by" : "may be replaced by"));
  }
  // As in a secret of Kubernetes: root's, for the pod's group.
  ASSERT_EQ(chmod(files.key.c_str(), 0440), 0);
  const absl::Status group = ReadTlsFiles(files, TlsUse::kCalls).status();
  EXPECT_EQ(group.ok(), geteuid() == 0) << group;
  if (geteuid() == 0) {
    ASSERT_EQ(chown(files.key.c_str(), 7000, 7000), 0);
    EXPECT_THAT(Message(files, absl::StatusCode::kFailedPrecondition), HasSubstr("0440"));
  }
}

TEST_F(TlsFilesTest, AnothersKeyIsRefused) {
  TlsFiles files = cluster_.Issue("server");
  files.key = cluster_.Issue("worker").key;
  EXPECT_THAT(Message(files, absl::StatusCode::kInvalidArgument),
              HasSubstr("is not that of the certificate"));
}

TEST_F(TlsFilesTest, AnExpiredCertificateIsRefusedWithItsDate) {
  const std::string message =
      Message(cluster_.Issue("server", Validity::kExpired), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(message, HasSubstr("expired on"));
  EXPECT_THAT(message, HasSubstr("GMT; renew it"));
}

TEST_F(TlsFilesTest, OneThatIsNotValidYetIsRefused) {
  EXPECT_THAT(
      Message(cluster_.Issue("server", Validity::kNotYet), absl::StatusCode::kFailedPrecondition),
      HasSubstr("is valid from"));
}

TEST_F(TlsFilesTest, OneOfAnotherAuthorityIsRefused) {
  TlsFiles files = cluster_.Issue("server");
  files.authority = CertificatesForTesting(::testing::TempDir(), "other").Issue("x").authority;
  EXPECT_THAT(Message(files, absl::StatusCode::kFailedPrecondition),
              HasSubstr("does not come from the authority"));
}

class TlsUseTest : public TlsFilesTest {
 protected:
  TlsFiles For(const std::string& use) {
    return cluster_.Issue("process", Validity::kNow, "127.0.0.1", use);
  }
};

TEST_F(TlsUseTest, OneForServersAloneCannotCall) {
  for (const TlsUse use : {TlsUse::kCalls, TlsUse::kCallsAndServes}) {
    EXPECT_THAT(Message(For("serverAuth"), absl::StatusCode::kFailedPrecondition, use),
                HasSubstr("is not for TLS clients"));
  }
}

TEST_F(TlsUseTest, OneForClientsAloneCannotServe) {
  EXPECT_TRUE(ReadTlsFiles(For("clientAuth"), TlsUse::kCalls).ok());
  EXPECT_THAT(Message(For("clientAuth"), absl::StatusCode::kFailedPrecondition),
              HasSubstr("is not for TLS servers"));
}

TEST_F(TlsUseTest, OneForBothMayDoBoth) {
  const auto identity = ReadTlsFiles(For("clientAuth,serverAuth"), TlsUse::kCallsAndServes);
  EXPECT_TRUE(identity.ok()) << identity.status();
}

}  // namespace
}  // namespace muster
