module evenkeel/lab/go-peer

go 1.24
