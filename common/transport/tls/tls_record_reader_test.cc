// What may come over a socket, by somebody who has the key and by somebody who has not.

#include "common/transport/tls/tls_record_reader.h"

#include <sys/socket.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "common/transport/descriptor.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

const std::string kSecret(32, 's');

class TlsRecordReaderTest : public testing::Test {
 protected:
  TlsRecordReaderTest() {
    int sockets[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets), 0);
    peer_ = Descriptor(sockets[0]);
    own_ = Descriptor(sockets[1]);
    reader_ = std::make_unique<TlsRecordReader>(own_.get(), kSecret);
  }

  std::string Sealed(absl::string_view text, TlsContent content = TlsContent::kApplicationData) {
    std::string record(text.size() + kTlsOverheadBytes, '?');
    sealing_.Seal(content, {reinterpret_cast<const std::byte*>(text.data()), text.size()},
                  reinterpret_cast<std::byte*>(record.data()));
    return record;
  }
  void Send(absl::string_view bytes) {
    ASSERT_EQ(send(peer_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Of at most so many bytes; an error's code and message.
  std::string Read(size_t bytes = 100) {
    std::string text(bytes, '?');
    const auto read = reader_->Read({reinterpret_cast<std::byte*>(text.data()), bytes});
    if (!read.ok()) return std::string(read.status().message());
    return text.substr(0, *read);
  }

  Descriptor peer_, own_;
  TlsRecordKey sealing_{kSecret};
  std::unique_ptr<TlsRecordReader> reader_;
};

TEST_F(TlsRecordReaderTest, ARecordMayComeByteByByte) {
  const std::string record = Sealed("slowly");
  for (const char byte : record.substr(0, record.size() - 1)) {
    Send({&byte, 1});
    EXPECT_EQ(Read(), "");
    EXPECT_FALSE(reader_->HasHiddenBytes());
  }
  Send(record.substr(record.size() - 1));
  EXPECT_EQ(Read(), "slowly");
}

TEST_F(TlsRecordReaderTest, AWholeRecordBehindWhatWasReadIsHidden) {
  Send(Sealed("first"));
  Send(Sealed("second"));
  Send(Sealed("third").substr(0, 7));
  EXPECT_EQ(Read(5), "first");
  EXPECT_TRUE(reader_->HasHiddenBytes());
  EXPECT_FALSE(reader_->drained());
  EXPECT_EQ(Read(6), "second");
  EXPECT_FALSE(reader_->HasHiddenBytes());
  // More may have come since the first was received.
  EXPECT_FALSE(reader_->drained());
  EXPECT_EQ(Read(), "");
  EXPECT_TRUE(reader_->drained());
}

TEST_F(TlsRecordReaderTest, OneCallReadsSeveralRecords) {
  for (const char* text : {"one, ", "two, ", "", "three"}) Send(Sealed(text));
  EXPECT_EQ(Read(), "one, two, three");
}

TEST_F(TlsRecordReaderTest, APartOfARecordIsReadFirstAndTheRestAfterwards) {
  Send(Sealed("a record in parts"));
  Send(Sealed("and another"));
  EXPECT_EQ(Read(8), "a record");
  EXPECT_TRUE(reader_->HasHiddenBytes());
  EXPECT_EQ(Read(), " in partsand another");
}

TEST_F(TlsRecordReaderTest, KeysChangeWhereThereIsNoRoomForTheMessage) {
  const std::string update{24, 0, 0, 1, 0};
  Send(Sealed("before"));
  Send(Sealed(update, TlsContent::kHandshake));
  sealing_.Advance();
  Send(Sealed("after"));
  EXPECT_EQ(Read(7), "beforea");
  EXPECT_EQ(Read(), "fter");
  EXPECT_FALSE(reader_->TakeKeyRequest());
}

TEST_F(TlsRecordReaderTest, AnotherKeyMayBeAskedFor) {
  const std::string update{24, 0, 0, 1, 1};
  Send(Sealed(update, TlsContent::kHandshake));
  sealing_.Advance();
  Send(Sealed("more"));
  EXPECT_EQ(Read(), "more");
  EXPECT_TRUE(reader_->TakeKeyRequest());
  EXPECT_FALSE(reader_->TakeKeyRequest());
}

TEST_F(TlsRecordReaderTest, WhatCameBeforeAnErrorIsReadFirst) {
  Send(Sealed("good"));
  std::string forged = Sealed("forged");
  forged.back() ^= 1;
  Send(forged);
  EXPECT_EQ(Read(), "good");
  EXPECT_TRUE(reader_->HasHiddenBytes());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Read(), "a TLS record that the other side has not made");
  EXPECT_EQ(reader_->farewell(), TlsAlert::kBadRecordMac);
}

TEST_F(TlsRecordReaderTest, OnlyApplicationDataIsSeen) {
  // As a handshake's record in plain text.
  Send(std::string("\x16\x03\x03\x00\x05", 5) + "hello");
  EXPECT_EQ(Read(), "a TLS record of type 22 is out of place");
  EXPECT_EQ(reader_->farewell(), TlsAlert::kUnexpectedMessage);
}

TEST_F(TlsRecordReaderTest, ALongRecordIsRefusedByItsHeader) {
  Send(std::string("\x17\x03\x03\x40\x12", 5));
  EXPECT_EQ(Read(), "a TLS record of 16407 bytes");
  EXPECT_EQ(reader_->farewell(), TlsAlert::kRecordOverflow);
}

TEST_F(TlsRecordReaderTest, TheLongestRecordIsNot) {
  const std::string text(kTlsContentBytes, 'x');
  Send(Sealed(text));
  EXPECT_EQ(Read(text.size()), text);
}

TEST_F(TlsRecordReaderTest, ARecordTooShortToBeOneIsRefused) {
  Send(std::string("\x17\x03\x03\x00\x00", 5));
  EXPECT_EQ(Read(), "a TLS record of 5 bytes");
}

TEST_F(TlsRecordReaderTest, OtherMessagesAreOutOfPlace) {
  // A ticket.
  Send(Sealed(std::string{4, 0, 0, 0}, TlsContent::kHandshake));
  EXPECT_EQ(Read(), "a TLS message of type 22 is out of place");
  EXPECT_EQ(reader_->farewell(), TlsAlert::kUnexpectedMessage);
}

TEST_F(TlsRecordReaderTest, AnErrorOfTheOtherSideIsNotAnswered) {
  Send(Sealed(std::string{2, 20}, TlsContent::kAlert));
  EXPECT_EQ(Read(), "the other end ended TLS with alert 20");
  EXPECT_FALSE(reader_->farewell().has_value());
}

TEST_F(TlsRecordReaderTest, ItsFarewellIsAnswered) {
  Send(Sealed("last"));
  Send(Sealed(std::string{1, 0}, TlsContent::kAlert));
  EXPECT_EQ(Read(), "last");
  EXPECT_EQ(Read(), "the other end has closed the connection");
  EXPECT_EQ(reader_->farewell(), TlsAlert::kCloseNotify);
}

TEST_F(TlsRecordReaderTest, RecordsWithoutContentEnd) {
  for (int i = 0; i < 32; ++i) Send(Sealed(""));
  Send(Sealed("content"));
  EXPECT_EQ(Read(), "content");
  for (int i = 0; i < 33; ++i) Send(Sealed(""));
  EXPECT_EQ(Read(), "too many TLS records without content");
}

}  // namespace
}  // namespace muster
