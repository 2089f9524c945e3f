// A database of RocksDB as the applier of a commit log fills it. It has two column families, which only the
// applier flushes, and both together.
#pragma once

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>

#include <memory>
#include <string>
#include <vector>

#include "store/durable/files.h"
#include "store/durable/rocksdb_options.h"

namespace remora {

class LogDatabase {
 public:
  /// `listener` may be null.
  void Open(const std::string& path, const std::shared_ptr<rocksdb::EventListener>& listener = nullptr) {
    rocksdb::DBOptions options =
        DatabaseOptions(/*fresh=*/true, {});  // so Close loses the same data as a kill
    options.env = files_.env();
    if (listener != nullptr) options.listeners.push_back(listener);
    rocksdb::DB* db = nullptr;
    const rocksdb::Status status =
        rocksdb::DB::Open(options, path, {{"default", {}}, {"meta", {}}}, &families_, &db);
    ASSERT_TRUE(status.ok()) << status.ToString();
    db_.reset(db);
  }
  void Close() {
    if (db_ == nullptr) return;
    for (rocksdb::ColumnFamilyHandle* family : families_) {
      EXPECT_TRUE(db_->DestroyColumnFamilyHandle(family).ok());
    }
    db_.reset();
  }

  rocksdb::DB* get() const { return db_.get(); }
  rocksdb::DB* operator->() const { return db_.get(); }
  rocksdb::ColumnFamilyHandle* entries() const { return families_[0]; }
  rocksdb::ColumnFamilyHandle* meta() const { return families_[1]; }

 private:
  DurableFiles files_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
};

}  // namespace remora
