//! What a crash inside recovery leaves.

use std::ops::ControlFlow;

use super::action_digest::ActionDigest;
use super::{RecoveryRun, is_action};
use crate::crash_point::{ImpossibleChoice, Interruption};
use crate::error::CrashError;
use crate::image::{CrashImage, ImageBuilder, LostBytes, TornBytes};
use crate::persistent_files::PersistentFiles;

/// What a crash inside recovery leaves.
#[derive(Clone, Debug)]
pub struct InterruptedImage {
    pub image: CrashImage,
    /// The stores of recovery before the crash that are not in the image.
    pub lost: Vec<LostBytes>,
    /// What the image has of stores of recovery that are torn.
    pub torn: Vec<TornBytes>,
}

impl RecoveryRun {
    /// What a crash inside the run leaves if it started with `image`.
    pub fn interrupted(
        &self,
        image: &CrashImage,
        interruption: &Interruption,
        files: &PersistentFiles,
    ) -> Result<InterruptedImage, CrashError> {
        let contents = self.actions.contents(&image.files);
        let contents = contents.map(|(file, content)| (file, content.clone()));
        let mut builder = ImageBuilder::over(files, &self.selection, contents);
        let choice = interruption.choice.as_ref();
        if let Some(choice) = choice {
            builder = builder.with_states(choice.profile()?);
        }
        let mut digest = ActionDigest::default();
        let mut actions = 0;
        let mut reader = self.actions.events().map_err(CrashError::Actions)?;
        let mut next = reader.events();
        reader
            .for_each(|event, definitions| {
                if actions == interruption.actions && is_action(&event.kind) {
                    next = event.index.0;
                    return ControlFlow::Break(());
                }
                digest.add(self, event, definitions);
                builder.apply(event, definitions);
                actions += u64::from(is_action(&event.kind));
                ControlFlow::Continue(())
            })
            .map_err(CrashError::Actions)?;
        if actions != interruption.actions || digest.now() != interruption.digest {
            return Err(ImpossibleChoice::OtherRecovery.into());
        }
        let definitions = reader.definitions();
        let (mut left, lost, torn) = match choice {
            Some(choice) => {
                let chosen = builder.chosen(choice, next, definitions)?;
                (chosen.image, chosen.lost, chosen.torn)
            }
            None => (builder.image(definitions), Vec::new(), Vec::new()),
        };
        // What recovery has not mapped is as it was.
        let holders = builder.holders(definitions).into_iter().enumerate();
        for (number, _) in holders.filter(|(_, holder)| holder.is_none()) {
            left.files[number] = image.files[number].clone();
        }
        Ok(InterruptedImage {
            image: left,
            lost,
            torn,
        })
    }
}
