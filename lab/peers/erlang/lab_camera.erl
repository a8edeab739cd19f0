%% The camera service of the Erlang peer: a process for each camera, which checks its frames,
%% records them and passes them on to whoever watches it. See ../README.md.
-module(lab_camera).
-export([new/0, serve/2, watch/2, stats/2]).

-define(FRAME, 1460).
-define(HEAD, 24).
-define(RECORD_BLOCK, 262144).        % what a recorder writes at once
-define(RECORD_RING, 4 * ?RECORD_BLOCK).
%% Recorders begin at so many different places of a block, so that cameras that begin together do
%% not write together ever after.
-define(RECORD_PLACES, 16).
-define(WAITING_MAX, 16384).          % viewers that wait for their camera
-define(DELAY_BUCKETS, 2048).         % room for half an hour
-define(DELAYS_PER_DOUBLING, 64).

%% Of the peer's own counters.
-define(DELIVERIES, 1).
-define(BYTES, 2).
%% Of the cameras' ones; buckets of delays come behind them.
-define(OPEN, 1).
-define(FRAMES, 2).
-define(LOST, 3).
-define(BROKEN, 4).
-define(RECORDED, 5).
-define(UNRECORDED, 6).
-define(WATCHED, 7).
-define(VIEWERS, 8).
-define(CONNECTIONS, 9).
-define(DELAYS, 10).

%% One camera: its frames so far, its recording, its viewer.
-record(camera, {socket, env, counts, rest = <<>>, skip = 0, number, next = 0,
                 file, kept = [], kept_len = 0, block = ?RECORD_BLOCK, at = 0, viewer, looked_at = 0}).

new() ->
    Waiting = ets:new(waiting, [public, set]),
    {counters:new(?DELAYS + ?DELAY_BUCKETS, [write_concurrency]), Waiting}.

%% A viewer asks by four bytes, least first. Its process lives as long as its connection, and the
%% camera's process sends on it.
watch(Socket, #{cameras := {Counts, Waiting}}) ->
    case gen_tcp:recv(Socket, 4) of
        {ok, <<Camera:32/little>>} ->
            case ets:info(Waiting, size) < ?WAITING_MAX of
                true ->
                    ets:insert(Waiting, {Camera, Socket, self()}),
                    counters:add(Counts, ?VIEWERS, 1),
                    receive over -> ok end;
                false ->
                    ok
            end;
        {error, _} ->
            ok
    end.

serve(Socket, #{cameras := {Counts, _}, mode := Mode} = Env) ->
    counters:add(Counts, ?OPEN, 1),
    counters:add(Counts, ?CONNECTIONS, 1),
    Place = counters:get(Counts, ?CONNECTIONS) rem ?RECORD_PLACES,
    Camera = #camera{socket = Socket, env = Env, counts = Counts, file = recording(Env),
                     block = ?RECORD_BLOCK - Place * (?RECORD_BLOCK div ?RECORD_PLACES)},
    try
        ok_or_gone(inet:setopts(Socket, [{active, first_active(Mode)}])),
        loop(Camera)
    after
        counters:sub(Counts, ?OPEN, 1)
    end.

first_active({defer, _}) -> once;
first_active(Mode) -> Mode.

%% Each message is one delivery.
loop(#camera{socket = Socket, env = #{mode := Mode}} = Camera) ->
    receive
        {tcp, Socket, Data} ->
            After = delivered(Data, Camera),
            rearm(Socket, Mode),
            loop(After);
        {tcp_passive, Socket} ->
            ok_or_gone(inet:setopts(Socket, [{active, Mode}])),
            loop(Camera);
        rearm ->
            %% Closed already, it still has to say so.
            _ = inet:setopts(Socket, [{active, once}]),
            loop(Camera);
        {tcp_closed, Socket} -> done(Camera);
        {tcp_error, Socket, _} -> done(Camera)
    end.

rearm(Socket, once) -> _ = inet:setopts(Socket, [{active, once}]);
rearm(_, {defer, Ms}) -> erlang:send_after(Ms, self(), rearm);
rearm(_, _) -> ok.

delivered(Data, #camera{env = #{counters := Counters, work := Work}} = Camera) ->
    counters:add(Counters, ?DELIVERIES, 1),
    counters:add(Counters, ?BYTES, byte_size(Data)),
    Followed = follow(Data, Camera),
    Work(),
    pass(Data, keep(Data, Followed)).

done(Camera) ->
    Flushed = flush(Camera),
    case Flushed#camera.file of
        undefined -> ok;
        File -> file:close(File)
    end,
    case Flushed#camera.viewer of
        {_, Pid} -> Pid ! over;
        undefined -> ok
    end.

%%% --- Frames ------------------------------------------------------------------------------------

%% What is left of the frame under way is skipped; a head may be cut in two.
follow(Data, #camera{skip = Skip, rest = <<>>, counts = Counts} = Camera)
  when byte_size(Data) =< Skip ->
    case Skip - byte_size(Data) of
        0 when Skip > 0 -> counters:add(Counts, ?FRAMES, 1);
        _ -> ok
    end,
    Camera#camera{skip = Skip - byte_size(Data)};
follow(Data, #camera{skip = Skip, rest = Rest, counts = Counts} = Camera) ->
    <<_:Skip/binary, Heads/binary>> = Data,
    Ended = case Skip of
        0 -> 0;
        _ -> 1
    end,
    heads(join(Rest, Heads), Camera#camera{skip = 0, rest = <<>>}, Counts, Ended, false).

join(<<>>, Data) -> Data;
join(Rest, Data) -> <<Rest/binary, Data/binary>>.

heads(<<"cam1", Number:32/little, Frame:64/little, Due:64/little, After/binary>>, Camera, Counts,
      Ended, Delayed) ->
    Begun = begun(Number, Frame, Camera),
    Delayed orelse delayed(Due, Counts),
    case After of
        <<_:(?FRAME - ?HEAD)/binary, More/binary>> ->
            heads(More, Begun, Counts, Ended + 1, true);
        _ ->
            counters:add(Counts, ?FRAMES, Ended),
            Begun#camera{skip = ?FRAME - ?HEAD - byte_size(After)}
    end;
heads(Part, Camera, Counts, Ended, _) when byte_size(Part) < ?HEAD ->
    counters:add(Counts, ?FRAMES, Ended),
    Camera#camera{rest = Part};
heads(_, Camera, _, _, _) ->
    broken(Camera).

begun(Number, Frame, #camera{number = Known, next = Next, counts = Counts} = Camera)
  when Frame >= Next, Known =:= undefined orelse Known =:= Number ->
    Frame =:= Next orelse counters:add(Counts, ?LOST, Frame - Next),
    Camera#camera{number = Number, next = Frame + 1};
begun(_, _, Camera) ->
    broken(Camera).

broken(#camera{counts = Counts} = Camera) ->
    counters:add(Counts, ?BROKEN, 1),
    done(Camera),
    throw(gone).

delayed(Due, Counts) ->
    Us = max(0, os:system_time(nanosecond) - Due) div 1000,
    Bucket = trunc(math:log2(Us + 1) * ?DELAYS_PER_DOUBLING),
    counters:add(Counts, ?DELAYS + min(Bucket, ?DELAY_BUCKETS - 1), 1).

%%% --- Recording ---------------------------------------------------------------------------------

recording(#{record := undefined}) -> undefined;
recording(#{record := Directory, cameras := {Counts, _}}) ->
    %% A name for each connection, of which no other process has the same.
    Name = "camera-" ++ integer_to_list(erlang:unique_integer([positive])),
    case file:open(filename:join(Directory, Name), [write, raw, binary]) of
        {ok, File} ->
            File;
        {error, _} ->
            counters:add(Counts, ?UNRECORDED, 1),
            undefined
    end.

keep(_, #camera{file = undefined} = Camera) -> Camera;
keep(Data, #camera{kept = Kept, kept_len = Len} = Camera) ->
    More = Camera#camera{kept = [Data | Kept], kept_len = Len + byte_size(Data)},
    case More#camera.kept_len >= More#camera.block of
        true -> flush(More);
        false -> More
    end.

%% Blocks are as long as deliveries make them; the ring starts over once it is full.
flush(#camera{file = undefined} = Camera) -> Camera;
flush(#camera{file = File, kept = Kept, kept_len = Len, at = At, counts = Counts} = Camera) ->
    case file:pwrite(File, At, lists:reverse(Kept)) of
        ok ->
            counters:add(Counts, ?RECORDED, Len),
            Next = case At + Len >= ?RECORD_RING of
                true -> 0;
                false -> At + Len
            end,
            Camera#camera{kept = [], kept_len = 0, block = ?RECORD_BLOCK, at = Next};
        {error, _} ->
            counters:add(Counts, ?UNRECORDED, 1),
            _ = file:close(File),
            Camera#camera{file = undefined, kept = [], kept_len = 0}
    end.

%%% --- Viewers -----------------------------------------------------------------------------------

pass(Data, #camera{viewer = undefined, counts = Counts, number = Number, looked_at = LookedAt,
                   env = #{cameras := {_, Waiting}}} = Camera) ->
    case counters:get(Counts, ?VIEWERS) of
        LookedAt ->
            Camera;
        Viewers ->
            Looked = Camera#camera{looked_at = Viewers},
            case ets:take(Waiting, Number) of
                [{_, Socket, Pid}] -> pass(Data, Looked#camera{viewer = {Socket, Pid}});
                [] -> Looked
            end
    end;
pass(Data, #camera{viewer = {Socket, Pid}, counts = Counts} = Camera) ->
    case gen_tcp:send(Socket, Data) of
        ok ->
            counters:add(Counts, ?WATCHED, byte_size(Data)),
            Camera;
        {error, _} ->
            Pid ! over,
            Camera#camera{viewer = undefined}
    end.

ok_or_gone(ok) -> ok;
ok_or_gone({error, _}) -> throw(gone).

%%% --- Accounts ----------------------------------------------------------------------------------

stats({Counts, _}, Counters) ->
    Get = fun(Index) -> counters:get(Counts, Index) end,
    Delays = [[Bucket, Get(?DELAYS + Bucket)] || Bucket <- lists:seq(0, ?DELAY_BUCKETS - 1),
                                                 Get(?DELAYS + Bucket) > 0],
    [{cameras, Get(?OPEN)},
     {deliveries, counters:get(Counters, ?DELIVERIES)},
     {bytes, counters:get(Counters, ?BYTES)},
     {frames, Get(?FRAMES)},
     {lost, Get(?LOST)},
     {broken, Get(?BROKEN)},
     {recorded, Get(?RECORDED)},
     {unrecorded, Get(?UNRECORDED)},
     {watched, Get(?WATCHED)},
     {delays, Delays}].
